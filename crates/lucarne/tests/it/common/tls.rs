//! A TLS client that looks at the certificate.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use lucarne_mint::Authority;
use lucarne_testkit::tls_client;
use rustls::ClientConnection;

/// The certificate served at `address` for whatever name it has, as text in
/// which its names can be found. The chain must end at `root`.
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
