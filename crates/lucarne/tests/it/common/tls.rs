//! A TLS client that checks the certificate.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use lucarne_mint::Authority;
use lucarne_testkit::tls_client;
use rustls::ClientConnection;

/// Returns the response of `address` to a GET over TLS, head and body. The server's certificate
/// must be valid for `name` and lead to `root`.
pub(crate) fn get(address: SocketAddr, root: &Authority, name: &'static str, path: &str) -> String {
    let config = tls_client([root.cert_der().to_vec()], &[]).unwrap();
    let mut connection = ClientConnection::new(config, name.try_into().unwrap()).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8(response).unwrap()
}

/// Returns the test name for which the certificate at `address` is valid; empty if none. The chain
/// must end at `root`.
pub(crate) fn subject_names(address: SocketAddr, root: &Authority) -> String {
    let config = tls_client([root.cert_der().to_vec()], &[]).unwrap();
    for name in ["first.example.com", "second.example.com"] {
        let server = name.try_into().unwrap();
        let mut connection = ClientConnection::new(config.clone(), server).unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        let mut stream = rustls::Stream::new(&mut connection, &mut socket);
        if stream.write_all(b"\r\n").is_ok() {
            return name.to_owned();
        }
    }
    String::new()
}
