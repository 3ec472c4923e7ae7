// goproxy as an intercepting proxy, without a store or with a store that has a lock for each
// host, and a TLS server as the destination of proxies. bench/proxy compares lucarne with them.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/elazarl/goproxy"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "upstream" {
		upstream(os.Args[2:])
		return
	}
	proxy(os.Args[1:])
}

// store keeps certificates if keep is set, and otherwise only counts generated certificates.
type store struct {
	keep      bool
	mutex     sync.Mutex
	hosts     map[string]*entry
	generated atomic.Int64
}

// entry is the lock and the certificate of one host.
type entry struct {
	mutex       sync.Mutex
	certificate *tls.Certificate
}

// Fetch implements goproxy's CertStorage.
func (s *store) Fetch(host string, gen func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	if !s.keep {
		s.generated.Add(1)
		return gen()
	}
	s.mutex.Lock()
	e := s.hosts[host]
	if e == nil {
		e = &entry{}
		s.hosts[host] = e
	}
	s.mutex.Unlock()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.certificate != nil {
		return e.certificate, nil
	}
	s.generated.Add(1)
	certificate, err := gen()
	if err == nil {
		e.certificate = certificate
	}
	return certificate, err
}

func proxy(args []string) {
	flags := flag.NewFlagSet("goproxy", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:0", "listen address")
	caFile := flags.String("ca", "", "PEM file with the CA's key and certificate")
	to := flags.String("upstream", "", "address of all hosts")
	trust := flags.String("upstream-ca", "", "PEM file of the upstream's CA")
	keep := flags.Bool("store", false, "keep certificates, with a lock for each host")
	_ = flags.Parse(args)

	text, err := os.ReadFile(*caFile)
	must(err)
	ca, err := tls.X509KeyPair(text, text)
	must(err)
	ca.Leaf, err = x509.ParseCertificate(ca.Certificate[0])
	must(err)
	roots := x509.NewCertPool()
	text, err = os.ReadFile(*trust)
	must(err)
	roots.AppendCertsFromPEM(text)

	certificates := &store{keep: *keep, hosts: map[string]*entry{}}
	server := goproxy.NewProxyHttpServer()
	server.Logger = log.New(io.Discard, "", 0)
	server.CertStore = certificates
	server.Tr = &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, *to)
		},
	}
	action := &goproxy.ConnectAction{
		Action:    goproxy.ConnectMitm,
		TLSConfig: goproxy.TLSConfigFromCA(&ca),
	}
	intercept := func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
		return action, host
	}
	server.OnRequest().HandleConnect(goproxy.FuncHttpsHandler(intercept))

	listener, err := net.Listen("tcp", *listen)
	must(err)
	fmt.Println(listener.Addr())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	go func() {
		for s := range signals {
			fmt.Println("generated", certificates.generated.Load())
			if s == syscall.SIGTERM {
				os.Exit(0)
			}
		}
	}()
	must(http.Serve(listener, server))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
