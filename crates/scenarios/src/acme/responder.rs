//! Responder to the challenges of a server: http-01 (RFC 8555, section 8.3) and tls-alpn-01 (RFC
//! 8737).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use lucarne_load::{PrepareError, Stop};
use lucarne_mint::{
    Der, Extension, KeyPair, KeyType, Lengths, Name, Template, Time, Version, extension, oid,
};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::options::ChallengeType;

/// Time limit of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Size limit of a request's head in bytes.
const MOST_HEAD: usize = 8 << 10;
/// ALPN protocol of validations (RFC 8737, section 6.2).
const ALPN: &[u8] = b"acme-tls/1";

/// Responses to challenges, and the listener for them.
pub(super) struct Responder {
    kind: ChallengeType,
    listener: tokio::sync::Mutex<Option<TcpListener>>,
    /// Key authorisation by token (http-01).
    tokens: Prepared<String>,
    certificates: Arc<Certificates>,
}

/// Certificate by name (tls-alpn-01).
#[derive(Debug)]
struct Certificates {
    key: KeyPair,
    by_name: Prepared<Arc<CertifiedKey>>,
}

/// Prepared responses, each with the record whether the server has requested it.
#[derive(Debug)]
struct Prepared<T>(Mutex<HashMap<String, (T, bool)>>);

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Prepared<T> {
    fn add(&self, key: &str, response: T) {
        self.0.lock().insert(key.to_owned(), (response, false));
    }

    /// Returns a response that the server requests.
    fn request(&self, key: &str) -> Option<T> {
        let mut all = self.0.lock();
        let (response, requested) = all.get_mut(key)?;
        *requested = true;
        Some(response.clone())
    }

    /// Removes a response. Returns whether the server has requested it.
    fn remove(&self, key: &str) -> bool {
        let removed = self.0.lock().remove(key);
        removed.is_some_and(|(_, requested)| requested)
    }
}

/// Errors of creating the certificate of a challenge.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponderError {
    #[error("cannot create the certificate of a challenge: {0}")]
    Certificate(#[from] lucarne_mint::MintError),
    #[error("TLS cannot use the key of a challenge's certificate: {0}")]
    Key(#[from] rustls::Error),
}

impl Responder {
    pub(super) fn new(kind: ChallengeType) -> Result<Self, PrepareError> {
        let key = KeyPair::generate(KeyType::EcdsaP256);
        let key = key.map_err(|error| PrepareError::Configuration(error.to_string()))?;
        Ok(Self {
            kind,
            listener: tokio::sync::Mutex::default(),
            tokens: Prepared::default(),
            certificates: Arc::new(Certificates {
                key,
                by_name: Prepared::default(),
            }),
        })
    }

    /// Binds the listener before the load, so that an error ends the run at its start.
    pub(super) async fn listen(&self, address: SocketAddr) -> Result<(), PrepareError> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            PrepareError::Configuration(format!(
                "listening at {address} for challenges ({}): {error}",
                self.kind.name()
            ))
        })?;
        *self.listener.lock().await = Some(listener);
        Ok(())
    }

    /// Responds to validations until `stop`.
    pub(super) async fn serve(self: Arc<Self>, stop: Stop) {
        let Some(listener) = self.listener.lock().await.take() else {
            return;
        };
        let Ok(acceptor) = acceptor(self.certificates.clone()) else {
            return;
        };
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            let Ok((stream, _)) = accepted else {
                // No file descriptor is free until other connections end.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let (responder, acceptor) = (self.clone(), acceptor.clone());
            tokio::spawn(tokio::time::timeout(CONNECTION_TIMEOUT, async move {
                match responder.kind {
                    ChallengeType::Http01 => responder.answer(stream).await,
                    // The handshake alone is the response.
                    ChallengeType::TlsAlpn01 => {
                        if let Ok(mut stream) = acceptor.accept(stream).await {
                            let _ = stream.shutdown().await;
                        }
                    }
                }
            }));
        }
    }

    /// Prepares the response to a challenge for `name`.
    pub(super) fn expect(
        &self,
        name: &str,
        token: &str,
        authorization: &str,
    ) -> Result<(), ResponderError> {
        match self.kind {
            ChallengeType::Http01 => self.tokens.add(token, authorization.to_owned()),
            ChallengeType::TlsAlpn01 => self.certificates.add(name, authorization)?,
        }
        Ok(())
    }

    /// Removes the response to a challenge that the server has validated or refused. Returns
    /// whether the server has requested the response.
    pub(super) fn forget(&self, name: &str, token: &str) -> bool {
        match self.kind {
            ChallengeType::Http01 => self.tokens.remove(token),
            ChallengeType::TlsAlpn01 => self.certificates.by_name.remove(name),
        }
    }

    /// Responds to one HTTP request of an http-01 validation.
    async fn answer(&self, mut stream: TcpStream) {
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read_buf(&mut head).await {
                Ok(1..) if head.len() <= MOST_HEAD => {}
                _ => return,
            }
        }
        let head = String::from_utf8_lossy(&head);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let token = path.strip_prefix("/.well-known/acme-challenge/");
        let found = token.and_then(|token| self.tokens.request(token));
        let (status, body) = match found {
            Some(authorization) => ("200 OK", authorization),
            None => ("404 Not Found", String::new()),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/octet-stream\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

impl Certificates {
    /// Creates a self-signed certificate with the digest of the key authorisation.
    fn add(&self, name: &str, authorization: &str) -> Result<(), ResponderError> {
        let digest = digest::digest(&digest::SHA256, authorization.as_bytes());
        let proof = Extension::new(oid::ACME_IDENTIFIER, true, |der: &mut Der| {
            der.octet_string(digest.as_ref())
        });
        let now = Time::now();
        let subject = Name::common_name("ACME challenge");
        let template = Template {
            version: Version::V3,
            serial: vec![1],
            algorithm: self.key.default_algorithm(),
            inner_algorithm: None,
            outer_algorithm: None,
            issuer: subject.clone(),
            not_before: now.plus_days(-1),
            not_after: now.plus_days(1),
            subject,
            spki: self.key.spki().to_vec(),
            extensions: vec![extension::subject_alt_name(&[name]), proof],
            lengths: Lengths::Minimal,
        };
        let certificate = template.sign(&self.key)?;
        let key = PrivatePkcs8KeyDer::from(self.key.to_pkcs8()?);
        let key = provider::sign::any_ecdsa_type(&key.into())?;
        let certified = CertifiedKey::new(vec![certificate.into()], key);
        self.by_name.add(name, Arc::new(certified));
        Ok(())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // Every validation offers this protocol (RFC 8737, section 4).
        let is_validation = hello.alpn()?.any(|protocol| protocol == ALPN);
        let name = hello.server_name().filter(|_| is_validation)?;
        self.by_name.request(name)
    }
}

fn acceptor(certificates: Arc<Certificates>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(provider::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
