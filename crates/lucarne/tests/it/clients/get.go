// Requests each URL of the command line, through the proxy of the environment, and prints each
// response: protocol, status, the certificate's serial number, body.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	for _, url := range os.Args[1:] {
		response, err := http.Get(url)
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		serial := response.TLS.PeerCertificates[0].SerialNumber
		fmt.Printf("%s %d serial=%x %s\n", response.Proto, response.StatusCode, serial, body)
	}
}
