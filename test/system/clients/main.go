// net/http of Go as a client of the proxy. What it does and prints is said in programs.ts.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
)

const (
	mib      = 1 << 20
	small    = 1 << 14
	requests = 200
	loops    = 4
)

type edge struct {
	client *http.Client
	base   *url.URL
	body   []byte
	out    *json.Encoder
	mutex  sync.Mutex
}

func main() {
	base, err := url.Parse(os.Args[1])
	check(err)
	e := &edge{client: newClient(os.Args[2]), base: base, body: make([]byte, mib), out: json.NewEncoder(os.Stdout)}
	for i := range e.body {
		e.body[i] = byte(i % 251)
	}
	switch os.Args[3] {
	case "exchange":
		e.exchange()
	case "upload":
		bytes, err := strconv.Atoi(os.Getenv("EDGE_UPLOAD"))
		check(err)
		e.ask("POST", "/upload", make([]byte, bytes))
	default:
		e.drain()
	}
}

func (e *edge) exchange() {
	e.ask("GET", "/mib", nil)
	e.ask("POST", "/echo", e.body)
	for i := 0; i < requests; i++ {
		e.ask("GET", fmt.Sprintf("/n/%d", i), nil)
	}
}

func (e *edge) drain() {
	e.ask("GET", "/first", nil)
	var all sync.WaitGroup
	start := func(run func()) {
		all.Add(1)
		go func() {
			defer all.Done()
			run()
		}()
	}
	for i := 0; i < 2; i++ {
		held, upload := fmt.Sprintf("/held/%d", i), fmt.Sprintf("/held/%d", i+2)
		start(func() { e.ask("GET", held, nil) })
		start(func() { e.ask("POST", upload, e.body[:small]) })
	}
	for loop := 0; loop < loops; loop++ {
		name := fmt.Sprintf("/loop/%d", loop)
		start(func() {
			for i := 0; e.ask("GET", fmt.Sprintf("%s/%d", name, i), nil); i++ {
			}
		})
	}
	all.Wait()
}

// ask makes one request and reports it. It returns whether there was a whole answer.
func (e *edge) ask(method, path string, body []byte) bool {
	report := map[string]any{"request": method + " " + e.base.Path + path}
	status, digest, err := e.request(method, path, body)
	if err != nil {
		report["error"] = err.Error()
	} else {
		report["status"], report["digest"] = status, digest
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	check(e.out.Encode(report))
	return err == nil
}

func (e *edge) request(method, path string, body []byte) (int, string, error) {
	request, err := http.NewRequest(method, e.base.String()+path, bytes.NewReader(body))
	check(err)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("EDGE_TOKEN"))
	response, err := e.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	digest := sha256.New()
	if _, err = io.Copy(digest, response.Body); err != nil {
		return 0, "", err
	}
	return response.StatusCode, fmt.Sprintf("%x", digest.Sum(nil)), nil
}

func newClient(protocol string) *http.Client {
	ca, err := os.ReadFile(os.Getenv("EDGE_CA"))
	check(err)
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(ca)
	certificate, err := tls.LoadX509KeyPair(os.Getenv("EDGE_CERT"), os.Getenv("EDGE_KEY"))
	check(err)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}},
		ForceAttemptHTTP2: protocol == "h2",
	}
	return &http.Client{Transport: transport}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
