// vary: load in which no two requests are alike, as real clients send it. Each request has its own traceparent and x-request-id, the
// token of one of many tenants, one of 1,000 paths, and a few constant fields. One request is one write, unlike h2load,
// which packs a connection's requests into one record. Standard library only.
//
//	go build -o vary vary.go
//	./vary -url https://127.0.0.1:8443/svc-a -ca ca.crt -cert client.crt -key client.key -jwt jwt.key -h2 -conns 16 -streams 16 -n 100000
//
// Prints {"ok":N,"bad":N,"secs":S}; with -rate also the latencies' p50, p99, p999 and max in ms.
package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var (
	url     = flag.String("url", "", "where the paths begin")
	ca      = flag.String("ca", "", "CA of the server's certificate, PEM")
	cert    = flag.String("cert", "", "client certificate, PEM")
	key     = flag.String("key", "", "its key, PEM")
	jwt     = flag.String("jwt", "", "RSA private key of the issuer, PEM")
	h2      = flag.Bool("h2", false, "HTTP/2; HTTP/1.1 without it")
	conns   = flag.Int("conns", 16, "connections")
	streams = flag.Int("streams", 16, "requests in flight on each HTTP/2 connection")
	count   = flag.Int64("n", 0, "requests in all")
	secs    = flag.Float64("secs", 0, "in place of -n: how long")
	rate    = flag.Float64("rate", 0, "requests a second in all; as fast as it goes without it")
	tenants = flag.Int("tenants", 1000, "tokens, each of its own tenant")
	kept    = flag.String("kept", "", "file that keeps the tokens for the next run: a signature takes a millisecond")
	same    = flag.Bool("same", false, "the same ids and path in all requests: what this generator itself costs a proxy")
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// mint signs a token for each tenant.
func mint(signer *rsa.PrivateKey) []string {
	b64 := base64.RawURLEncoding.EncodeToString
	now := time.Now().Unix()
	tokens := make([]string, *tenants)
	for i := range tokens {
		claims := must(json.Marshal(map[string]any{"sub": fmt.Sprintf("tenant-%d", i), "iss": "https://issuer.example",
			"aud": "proxy", "scope": "read", "nbf": now - 10, "exp": now + 86400}))
		text := b64([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + b64(claims)
		digest := sha256.Sum256([]byte(text))
		tokens[i] = "Bearer " + text + "." + b64(must(rsa.SignPKCS1v15(rand.Reader, signer, crypto.SHA256, digest[:])))
	}
	return tokens
}

// readTokens: those of the last run, if it stored as many.
func readTokens() []string {
	if *kept != "" {
		if text, err := os.ReadFile(*kept); err == nil {
			if known := strings.Split(string(text), "\n"); len(known) == *tenants {
				return known
			}
		}
	}
	tokens := mint(readSigner())
	if *kept != "" {
		// Other processes may read it meanwhile.
		own := must(os.CreateTemp(filepath.Dir(*kept), "tokens"))
		must(own.WriteString(strings.Join(tokens, "\n")))
		must(own, own.Close())
		must(own, os.Rename(own.Name(), *kept))
	}
	return tokens
}

func readSigner() *rsa.PrivateKey {
	block, _ := pem.Decode(must(os.ReadFile(*jwt)))
	if signer, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return signer
	}
	return must(x509.ParsePKCS8PrivateKey(block.Bytes)).(*rsa.PrivateKey)
}

func request(i int64, tokens []string) *http.Request {
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	id := "4fd0b6131f19f39a-f79dbf1bbb8c6a42"
	if *same {
		i = 0
	} else {
		a, b := mrand.Uint64(), mrand.Uint64()
		trace, id = fmt.Sprintf("00-%016x%016x-%016x-00", a, b, b|1), fmt.Sprintf("%016x-%016x", b, a)
	}
	path := fmt.Sprintf("%s/hello/%06d?page=%d", *url, i%1000, i%1000)
	req := must(http.NewRequestWithContext(context.Background(), "GET", path, nil))
	req.Header = http.Header{"Authorization": {tokens[mrand.IntN(len(tokens))]}, "Traceparent": {trace}, "X-Request-Id": {id},
		"User-Agent": {"billing-service/4.2 (linux)"}, "Accept": {"application/json"}, "X-Api-Version": {"2026-10-01"}}
	return req
}

func client(roots *x509.CertPool, own tls.Certificate) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(!*h2)
	protocols.SetHTTP2(*h2)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}},
		Protocols: &protocols, MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, DisableCompression: true}}
}

// ask sends one request and reads its response to the end. Only a 200 counts.
func ask(c *http.Client, req *http.Request) bool {
	resp, err := c.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == 200
}

// pace starts a kernel timer and gives one turn per period, at most 50 µs late. A timer of Go is up to 1.1 ms late if nothing
// else wakes the process. Then eight requests leave at once, and how often that happens depends on how a proxy bundles its responses.
func pace(period time.Duration, turns chan<- struct{}) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		must(0, errno)
	}
	each := syscall.NsecToTimespec(period.Nanoseconds())
	spec := [2]syscall.Timespec{each, each}
	if _, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); errno != 0 {
		must(0, errno)
	}
	timer := os.NewFile(fd, "timer")
	go func() {
		var passed [8]byte
		for {
			must(timer.Read(passed[:]))
			for range binary.NativeEndian.Uint64(passed[:]) {
				turns <- struct{}{}
			}
		}
	}()
}

const clockMonotonic = 1

func main() {
	flag.Parse()
	tokens := readTokens()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(*ca)))
	own := must(tls.LoadX509KeyPair(*cert, *key))
	each := 1
	if *h2 {
		each = *streams
	}
	var taken, ok, bad atomic.Int64
	var lock sync.Mutex
	var latencies []time.Duration
	var running sync.WaitGroup
	turns := make(chan struct{}, 1<<20)
	if *rate > 0 {
		// A collection delays a dozen requests by 2 ms, and there would be fifteen per second.
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(1 << 30)
		pace(time.Duration(1e9 / *rate), turns)
	}
	start := time.Now()
	work := func(c *http.Client) {
		defer running.Done()
		var own []time.Duration
		for {
			i := taken.Add(1) - 1
			if *secs == 0 && i >= *count || *secs > 0 && time.Since(start).Seconds() >= *secs {
				break
			}
			sent := time.Now()
			if *rate > 0 {
				// Measured from when it was due, so that a request behind a slow one counts as slow, too.
				<-turns
				sent = start.Add(time.Duration(float64(i+1) / *rate * 1e9))
			}
			if !ask(c, request(i, tokens)) {
				bad.Add(1)
				continue
			}
			ok.Add(1)
			if *rate > 0 {
				own = append(own, time.Since(sent))
			}
		}
		lock.Lock()
		latencies = append(latencies, own...)
		lock.Unlock()
	}
	for range *conns {
		c := client(roots, own)
		for range each {
			running.Add(1)
			go work(c)
		}
	}
	running.Wait()
	result := map[string]any{"ok": ok.Load(), "bad": bad.Load(), "secs": time.Since(start).Seconds()}
	if len(latencies) > 0 {
		slices.Sort(latencies)
		at := func(q float64) float64 {
			return float64(latencies[int(float64(len(latencies)-1)*q)].Microseconds()) / 1000
		}
		result["p50"], result["p99"], result["p999"], result["max"] = at(.5), at(.99), at(.999), at(1)
	}
	fmt.Println(string(must(json.Marshal(result))))
}
