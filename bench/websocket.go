// websocket: messages over WebSockets (RFC 6455), sent by one end and echoed by the other. Each connection has one message in flight, and
// one message is one write. Standard library only.
//
//	go build -o websocket websocket.go
//	./websocket -serve 127.0.0.1:8080     # echoes; answers ordinary requests as the benchmark's nginx does
//	./websocket -url https://127.0.0.1:8443/svc-a/echo -ca ca.crt -cert client.crt -key client.key -token JWT -conns 64 -n 100000
//
// The client prints "open" after all handshakes, and starts when it reads a line: so a measurement contains only messages.
// Prints {"ok":N,"secs":S}.
package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var (
	serve = flag.String("serve", "", "address to listen on, as the end that echoes")
	to    = flag.String("url", "", "where the handshakes go")
	ca    = flag.String("ca", "", "CA of the server's certificate, PEM")
	cert  = flag.String("cert", "", "client certificate, PEM")
	key   = flag.String("key", "", "its key, PEM")
	token = flag.String("token", "", "JSON Web Token")
	conns = flag.Int("conns", 64, "connections")
	size  = flag.Int("bytes", 100, "of a message, at most 125")
	count = flag.Int64("n", 0, "messages in all")
	secs  = flag.Float64("secs", 0, "in place of -n: how long")
)

const binary = 0x82

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"hello":"world","tenant":"%s%s"}`, r.Header.Get("X-Proxy-Tenant"), r.Header.Get("X-Ferryman-Tenant"))
		return
	}
	conn, stream, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		accept(r.Header.Get("Sec-WebSocket-Key")))
	echo(conn, stream.Reader)
}

// echo reads short masked frames, and returns them unmasked.
func echo(conn net.Conn, reader *bufio.Reader) {
	var frame [2 + 4 + 125]byte
	for {
		if _, err := io.ReadFull(reader, frame[:6]); err != nil {
			return
		}
		length := int(frame[1] & 0x7f)
		payload := frame[6 : 6+length]
		if frame[0] != binary || length > 125 {
			return
		}
		if _, err := io.ReadFull(reader, payload); err != nil {
			return
		}
		for i := range payload {
			payload[i] ^= frame[2+i%4]
		}
		frame[4], frame[5] = binary, byte(length)
		if _, err := conn.Write(frame[4 : 6+length]); err != nil {
			return
		}
	}
}

// open opens a connection and does the handshake.
func open(config *tls.Config, target *url.URL) (net.Conn, *bufio.Reader) {
	conn := must(tls.Dial("tcp", target.Host, config))
	var nonce [16]byte
	rand.Read(nonce[:])
	proof := base64.StdEncoding.EncodeToString(nonce[:])
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n", target.RequestURI(), target.Host, *token, proof)
	reader := bufio.NewReader(conn)
	response := must(http.ReadResponse(reader, nil))
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Accept") != accept(proof) {
		check(fmt.Errorf("handshake: %s", response.Status))
	}
	return conn, reader
}

// roundTrip sends a message and compares the echo.
func roundTrip(conn net.Conn, reader *bufio.Reader, frame, expected, got []byte) {
	must(conn.Write(frame))
	must(io.ReadFull(reader, got))
	if !bytes.Equal(got, expected) {
		check(fmt.Errorf("another message has come back: %x", got))
	}
}

func main() {
	flag.Parse()
	if *serve != "" {
		check(http.ListenAndServe(*serve, http.HandlerFunc(answer)))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(*ca)))
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{must(tls.LoadX509KeyPair(*cert, *key))}, NextProtos: []string{"http/1.1"}}
	target := must(url.Parse(*to))

	mask := [4]byte{0x1f, 0xa3, 0x5c, 0xe9}
	payload := make([]byte, *size)
	rand.Read(payload)
	frame := append([]byte{binary, 0x80 | byte(*size)}, mask[:]...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	expected := append([]byte{binary, byte(*size)}, payload...)

	type end struct {
		conn   net.Conn
		reader *bufio.Reader
	}
	ends := make([]end, *conns)
	for i := range ends {
		ends[i].conn, ends[i].reader = open(config, target)
		roundTrip(ends[i].conn, ends[i].reader, frame, expected, make([]byte, len(expected)))
	}
	fmt.Println("open")
	must(bufio.NewReader(os.Stdin).ReadString('\n'))

	var taken, ok atomic.Int64
	var running sync.WaitGroup
	start := time.Now()
	for _, e := range ends {
		running.Add(1)
		go func() {
			defer running.Done()
			got := make([]byte, len(expected))
			for {
				if *secs == 0 && taken.Add(1) > *count || *secs > 0 && time.Since(start).Seconds() >= *secs {
					return
				}
				roundTrip(e.conn, e.reader, frame, expected, got)
				ok.Add(1)
			}
		}()
	}
	running.Wait()
	fmt.Println(string(must(json.Marshal(map[string]any{"ok": ok.Load(), "secs": time.Since(start).Seconds()}))))
}
