//! A TLS client that looks at the certificate.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use lucarne_mint::Authority;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// The certificate served at `address` for whatever name it has, as text in
/// which its names can be found. The chain must end at `root`.
pub(crate) fn subject_names(address: SocketAddr, root: &Authority) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(root.cert_der().to_vec().into()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
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
