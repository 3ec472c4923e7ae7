package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

// upstream responds over TLS to every request for a subdomain of a domain.
func upstream(args []string) {
	flags := flag.NewFlagSet("upstream", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:0", "listen address")
	domain := flags.String("domain", "proxy.test", "domain whose subdomains it serves")
	trust := flags.String("ca", "", "output file for the certificate of its CA")
	_ = flags.Parse(args)

	ca, caKey := certificate(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "Upstream CA"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}, nil, nil)
	leaf, key := certificate(&x509.Certificate{
		Subject:     pkix.Name{CommonName: *domain},
		DNSNames:    []string{*domain, "*." + *domain},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature,
	}, ca, caKey)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	must(os.WriteFile(*trust, text, 0o644))

	listener, err := net.Listen("tcp", *listen)
	must(err)
	fmt.Println(listener.Addr())
	server := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{
			{Certificate: [][]byte{leaf.Raw}, PrivateKey: key},
		}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte("hello\n"))
		}),
	}
	must(server.ServeTLS(listener, "", ""))
}

// certificate creates a certificate, signed by parentKey, or self-signed without a parent.
func certificate(
	template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey,
) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	must(err)
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	must(err)
	made, err := x509.ParseCertificate(der)
	must(err)
	return made, key
}
