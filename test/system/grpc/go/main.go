// grpc-go as a client and as a server. What both do and print is said in peers.ts.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	echoInitial  = "x-grpc-test-echo-initial"
	echoTrailing = "x-grpc-test-echo-trailing-bin"
	large        = 314_159
	pings        = 300
	connections  = 10
	atOnce       = 32
	sleepTime    = time.Second
	pollTime     = 20 * time.Millisecond
	maxMessage   = 64 << 20
)

var (
	requestSizes  = []int{27_182, 8, 1_828, 45_904}
	responseSizes = []int{31_415, 9, 2_653, 58_979}
)

func main() {
	switch os.Args[1] {
	case "serve":
		serve(os.Args[2:])
	default:
		call(os.Args[2], os.Args[3], strings.Split(os.Args[4], ","))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func say(what map[string]any) {
	check(json.NewEncoder(os.Stdout).Encode(what))
}

// raw has bytes as messages; health has its own.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(message any) ([]byte, error) {
	if bytes, ok := message.(*[]byte); ok {
		return *bytes, nil
	}
	return proto.Marshal(message.(proto.Message))
}

func (raw) Unmarshal(data []byte, message any) error {
	if bytes, ok := message.(*[]byte); ok {
		*bytes = data
		return nil
	}
	return proto.Unmarshal(data, message.(proto.Message))
}

// The server.

type service struct {
	mutex  sync.Mutex
	asleep map[string]int
}

func serve(names []string) {
	certificate, err := tls.LoadX509KeyPair(os.Getenv("GRPC_CERT"), os.Getenv("GRPC_KEY"))
	check(err)
	shared := &service{asleep: map[string]int{}}
	aging := keepalive.ServerParameters{MaxConnectionAge: 100 * time.Millisecond, MaxConnectionAgeGrace: 10 * time.Minute}
	ports := map[string]any{}
	for name, option := range map[string]grpc.ServerOption{
		"clear": grpc.Creds(insecure.NewCredentials()),
		"tls":   grpc.Creds(credentials.NewServerTLSFromCert(&certificate)),
		"aging": grpc.KeepaliveParams(aging),
	} {
		server := grpc.NewServer(option, grpc.ForceServerCodec(raw{}), grpc.MaxRecvMsgSize(maxMessage))
		for _, name := range names {
			server.RegisterService(shared.describe(name), shared)
		}
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		ports[name] = listener.Addr().(*net.TCPAddr).Port
		go func() { check(server.Serve(listener)) }()
	}
	say(ports)
	select {}
}

func (s *service) describe(name string) *grpc.ServiceDesc {
	unary := func(name string, answer func(context.Context, []byte) ([]byte, error)) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(
			_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
		) (any, error) {
			var request []byte
			if err := decode(&request); err != nil {
				return nil, err
			}
			response, err := answer(ctx, request)
			return &response, err
		}}
	}
	stream := func(name string, answer func(grpc.ServerStream) error) grpc.StreamDesc {
		return grpc.StreamDesc{StreamName: name, ServerStreams: true, ClientStreams: true, Handler: func(
			_ any, stream grpc.ServerStream,
		) error {
			if err := begin(stream.Context()); err != nil {
				return err
			}
			return answer(stream)
		}}
	}
	return &grpc.ServiceDesc{
		ServiceName: name,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary("UnaryCall", func(ctx context.Context, request []byte) ([]byte, error) { return request, begin(ctx) }),
			unary("Sleep", s.sleep),
			unary("Asleep", func(_ context.Context, key []byte) ([]byte, error) {
				return []byte(strconv.Itoa(s.count(key, 0))), nil
			}),
		},
		Streams: []grpc.StreamDesc{
			stream("StreamingInputCall", func(stream grpc.ServerStream) error {
				total := 0
				for request := range received(stream) {
					total += len(request)
				}
				response := []byte(strconv.Itoa(total))
				return stream.SendMsg(&response)
			}),
			stream("StreamingOutputCall", func(stream grpc.ServerStream) error {
				for request := range received(stream) {
					for _, size := range strings.Split(string(request), ",") {
						bytes, err := strconv.Atoi(size)
						check(err)
						response := make([]byte, bytes)
						if err := stream.SendMsg(&response); err != nil {
							return err
						}
					}
				}
				return nil
			}),
			stream("FullDuplexCall", func(stream grpc.ServerStream) error {
				for request := range received(stream) {
					if err := stream.SendMsg(&request); err != nil {
						return err
					}
				}
				return nil
			}),
		},
	}
}

// begin sends metadata back, or ends the call as its metadata says.
func begin(ctx context.Context) error {
	sent, _ := metadata.FromIncomingContext(ctx)
	if fails := sent.Get("x-fails-bin"); fails != nil {
		code, message, _ := strings.Cut(fails[0], " ")
		number, err := strconv.Atoi(code)
		check(err)
		return status.Error(codes.Code(number), message)
	}
	from, _ := peer.FromContext(ctx)
	initial := metadata.MD{echoInitial: sent.Get(echoInitial), "x-connection": {from.Addr.String()}}
	trailing := metadata.MD{echoTrailing: sent.Get(echoTrailing)}
	if err := grpc.SendHeader(ctx, initial); err != nil {
		return err
	}
	return grpc.SetTrailer(ctx, trailing)
}

// received has all messages of a stream until its sender ends it or breaks it off.
func received(stream grpc.Stream) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		var message []byte
		for stream.RecvMsg(&message) == nil && yield(message) {
			message = nil
		}
	}
}

func (s *service) sleep(ctx context.Context, key []byte) ([]byte, error) {
	s.count(key, 1)
	<-ctx.Done()
	s.count(key, -1)
	return nil, status.FromContextError(ctx.Err()).Err()
}

func (s *service) count(key []byte, change int) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.asleep[string(key)] += change
	return s.asleep[string(key)]
}

// The client.

type client struct {
	connection *grpc.ClientConn
	service    string
	context    context.Context
}

func call(base, service string, cases []string) {
	target, err := url.Parse(base)
	check(err)
	security := insecure.NewCredentials()
	if target.Scheme == "https" {
		security = credentials.NewTLS(tlsOfClient())
	}
	connection, err := grpc.NewClient("passthrough:///"+target.Host, grpc.WithTransportCredentials(security),
		grpc.WithDisableRetry(), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	check(err)
	c := &client{connection, service, with(context.Background(), "authorization", "Bearer "+os.Getenv("EDGE_TOKEN"))}
	run := map[string]func() map[string]any{
		"empty_unary":                 func() map[string]any { return c.echo(c.context, nil) },
		"large_unary":                 func() map[string]any { return c.echo(c.context, random(large)) },
		"compressed_unary":            c.compressedUnary,
		"client_streaming":            c.clientStreaming,
		"server_streaming":            c.serverStreaming,
		"ping_pong":                   c.pingPong,
		"empty_stream":                c.emptyStream,
		"timeout_on_sleeping_server":  c.timeoutOnSleepingServer,
		"cancel_after_begin":          c.cancelAfterBegin,
		"cancel_after_first_response": c.cancelAfterFirstResponse,
		"status_code_and_message":     func() map[string]any { return c.fails("2 test status message") },
		"special_status_message": func() map[string]any {
			return c.fails("2 \t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n")
		},
		"custom_metadata":      c.customMetadata,
		"unimplemented_method": c.unimplementedMethod,
		"many_connections":     c.manyConnections,
	}
	for _, name := range cases {
		report := run[name]()
		report["case"] = name
		say(report)
	}
}

func tlsOfClient() *tls.Config {
	ca, err := os.ReadFile(os.Getenv("EDGE_CA"))
	check(err)
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(ca)
	certificate, err := tls.LoadX509KeyPair(os.Getenv("EDGE_CERT"), os.Getenv("EDGE_KEY"))
	check(err)
	return &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}}
}

func with(ctx context.Context, name, value string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, name, value)
}

func random(size int) []byte {
	bytes := make([]byte, size)
	_, err := rand.Read(bytes)
	check(err)
	return bytes
}

func code(err error) int {
	return int(status.Code(err))
}

func (c *client) unary(ctx context.Context, method string, request []byte, options ...grpc.CallOption) ([]byte, error) {
	var response []byte
	err := c.connection.Invoke(ctx, "/"+c.service+"/"+method, &request, &response, options...)
	return response, err
}

func (c *client) stream(ctx context.Context, method string) grpc.ClientStream {
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := c.connection.NewStream(ctx, both, "/"+c.service+"/"+method)
	check(err)
	return stream
}

func (c *client) echo(ctx context.Context, request []byte, options ...grpc.CallOption) map[string]any {
	response, err := c.unary(ctx, "UnaryCall", request, options...)
	return map[string]any{"code": code(err), "same": bytes.Equal(response, request)}
}

func (c *client) compressedUnary() map[string]any {
	request := bytes.Repeat([]byte("compress "), large)
	return c.echo(with(c.context, "x-compress", "1"), request, grpc.UseCompressor("gzip"))
}

func (c *client) clientStreaming() map[string]any {
	stream := c.stream(c.context, "StreamingInputCall")
	for _, size := range requestSizes {
		request := make([]byte, size)
		check(stream.SendMsg(&request))
	}
	check(stream.CloseSend())
	var response []byte
	check(stream.RecvMsg(&response))
	total, err := strconv.Atoi(string(response))
	check(err)
	return map[string]any{"code": codeOfEnd(stream), "total": total}
}

func (c *client) serverStreaming() map[string]any {
	stream := c.stream(c.context, "StreamingOutputCall")
	request := []byte(strings.Trim(strings.ReplaceAll(fmt.Sprint(responseSizes), " ", ","), "[]"))
	check(stream.SendMsg(&request))
	check(stream.CloseSend())
	sizes := []int{}
	for range responseSizes {
		var response []byte
		check(stream.RecvMsg(&response))
		sizes = append(sizes, len(response))
	}
	return map[string]any{"code": codeOfEnd(stream), "sizes": sizes}
}

func (c *client) pingPong() map[string]any {
	stream := c.stream(c.context, "FullDuplexCall")
	answered := 0
	for i := range pings {
		ping := random(requestSizes[i%len(requestSizes)])
		check(stream.SendMsg(&ping))
		var pong []byte
		check(stream.RecvMsg(&pong))
		if bytes.Equal(ping, pong) {
			answered++
		}
	}
	check(stream.CloseSend())
	return map[string]any{"code": codeOfEnd(stream), "answered": answered, "rest": 0}
}

func (c *client) emptyStream() map[string]any {
	stream := c.stream(c.context, "FullDuplexCall")
	check(stream.CloseSend())
	return map[string]any{"answered": 0, "code": codeOfEnd(stream)}
}

// codeOfEnd takes the end of a stream that has no message any more.
func codeOfEnd(stream grpc.ClientStream) int {
	var more []byte
	err := stream.RecvMsg(&more)
	if err == io.EOF {
		return 0
	}
	if err == nil {
		panic("one message more")
	}
	return code(err)
}

func (c *client) timeoutOnSleepingServer() map[string]any {
	ctx, cancel := context.WithTimeout(c.context, sleepTime)
	defer cancel()
	key := []byte("timeout")
	_, err := c.unary(ctx, "Sleep", key)
	c.untilAsleep(key, "0")
	return map[string]any{"code": code(err)}
}

func (c *client) cancelAfterBegin() map[string]any {
	ctx, cancel := context.WithCancel(c.context)
	key := []byte("cancel")
	ended := make(chan error)
	go func() {
		_, err := c.unary(ctx, "Sleep", key)
		ended <- err
	}()
	c.untilAsleep(key, "1")
	cancel()
	c.untilAsleep(key, "0")
	return map[string]any{"code": code(<-ended)}
}

func (c *client) cancelAfterFirstResponse() map[string]any {
	ctx, cancel := context.WithCancel(c.context)
	stream := c.stream(ctx, "FullDuplexCall")
	ping, pong := []byte("ping"), []byte{}
	check(stream.SendMsg(&ping))
	check(stream.RecvMsg(&pong))
	cancel()
	return map[string]any{"same": bytes.Equal(ping, pong), "code": codeOfEnd(stream)}
}

func (c *client) untilAsleep(key []byte, wanted string) {
	for {
		asleep, err := c.unary(c.context, "Asleep", key)
		check(err)
		if string(asleep) == wanted {
			return
		}
		time.Sleep(pollTime)
	}
}

func (c *client) fails(how string) map[string]any {
	_, err := c.unary(with(c.context, "x-fails-bin", how), "UnaryCall", nil)
	return map[string]any{"code": code(err), "details": status.Convert(err).Message()}
}

func (c *client) customMetadata() map[string]any {
	ctx := with(with(c.context, echoInitial, "test_initial_metadata_value"), echoTrailing, "\xab\xab\xab")
	var initial, trailing metadata.MD
	_, err := c.unary(ctx, "UnaryCall", nil, grpc.Header(&initial), grpc.Trailer(&trailing))
	return map[string]any{
		"code":     code(err),
		"initial":  strings.Join(initial.Get(echoInitial), ","),
		"trailing": hex.EncodeToString([]byte(strings.Join(trailing.Get(echoTrailing), ","))),
	}
}

func (c *client) unimplementedMethod() map[string]any {
	_, err := c.unary(c.context, "Nothing", nil)
	return map[string]any{"code": code(err)}
}

func (c *client) manyConnections() map[string]any {
	var mutex sync.Mutex
	seen, failed := map[string]bool{}, []string{}
	// note returns whether to go on.
	note := func(connection []string, outcome string) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if outcome != "" {
			failed = append(failed, outcome)
		}
		for _, one := range connection {
			seen[one] = true
		}
		return len(seen) < connections && len(failed) == 0
	}
	var all sync.WaitGroup
	for number := range atOnce {
		all.Go(func() {
			outcome := ""
			var initial metadata.MD
			for note(initial.Get("x-connection"), outcome) {
				request := bytes.Repeat(fmt.Append(nil, number, " "), mathrand.IntN(1_000))
				response, err := c.unary(c.context, "UnaryCall", request, grpc.Header(&initial))
				if err != nil || !bytes.Equal(response, request) {
					outcome = fmt.Sprintf("%v, %d of %d bytes", err, len(response), len(request))
				}
			}
		})
	}
	all.Wait()
	return map[string]any{"failed": failed}
}
