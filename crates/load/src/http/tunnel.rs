//! Requests through an HTTP proxy: a tunnel (CONNECT, RFC 9110, section 9.3.6), TLS within it, and
//! a request within TLS.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::body::ReceivedBody;
use super::exchange::Record;
use super::stream::{Stream, dial, too_late};
use super::{ClientOptions, Endpoint, EndpointError, Request, Response, Version, http1, kind, tls};
use crate::Failure;

/// Access through a proxy. Each request has its own connection, tunnel and TLS handshake, and uses
/// HTTP/1.1.
#[derive(Debug)]
pub struct Tunnel {
    proxy: Arc<Endpoint>,
    options: Arc<ClientOptions>,
    tls: Arc<ClientConfig>,
    /// Value of `proxy-authorization`.
    authorization: Option<String>,
}

/// Response of a tunnel's target.
#[derive(Clone, Debug)]
pub struct Tunnelled {
    /// The response. Its phase `connect` is the connection to the proxy, and `tls` the handshake
    /// within the tunnel.
    pub response: Response,
    /// Time from the connection to the proxy to its response to CONNECT.
    pub tunnel: Option<Duration>,
}

impl Tunnel {
    /// Creates the access through the proxy at `url` (`http://host:port`). Resolves the proxy's
    /// address, but never the addresses of hosts behind the proxy.
    ///
    /// # Errors
    /// If the URL is not the URL of a plain HTTP proxy, or if the options are invalid.
    pub async fn resolve(
        url: &str,
        options: Arc<ClientOptions>,
        authorization: Option<String>,
    ) -> Result<Self, EndpointError> {
        let proxy = Endpoint::direct(url, &options).await?;
        let wrong = |reason: &str| EndpointError::Url {
            url: url.to_owned(),
            reason: reason.to_owned(),
        };
        if proxy.tls.is_some() {
            return Err(wrong("the proxy must have an http:// URL"));
        }
        if options.version != Version::Http1 {
            return Err(wrong("requests through a proxy must use HTTP/1.1"));
        }
        let tls = tls::tls_settings(&options)?;
        Ok(Self {
            proxy,
            options,
            tls,
            authorization,
        })
    }

    /// Returns the HTTP version in the form of reports.
    pub fn protocol(&self) -> &'static str {
        self.options.version.name()
    }

    /// Returns the endpoint of the proxy.
    pub fn proxy(&self) -> &Endpoint {
        &self.proxy
    }

    /// Connects to the proxy, and disconnects.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn reach(&self) -> Result<(), Failure> {
        let until = Instant::now() + self.options.connect_timeout;
        dial(&self.proxy.addresses, until).await.map(|_| ())
    }

    /// Sends a request to `host:port` through the proxy. `address` replaces the host in CONNECT;
    /// then only TLS names the host (SNI).
    pub async fn send(
        &self,
        host: &str,
        port: u16,
        address: Option<&str>,
        request: &Request<'_>,
    ) -> Tunnelled {
        let budget = self.options.body_budget.as_ref();
        let body = ReceivedBody::new(request, self.options.max_body, budget, None);
        let answer = Answer::new(request.method == Method::HEAD, body);
        let mut record = Record::new(answer);
        record.body_out = request.body.len() as u64;
        let mut tunnel = None;
        let until = Instant::from_std(record.started) + self.options.timeout;
        let work = async {
            let target = self.target(host, port)?;
            let place = place(address.unwrap_or(host), port);
            let mut stream = self.open(&target, &place, &mut record, &mut tunnel).await?;
            let mut head = http1::lend();
            http1::write_head(&mut head, request, &target, &self.options, false)?;
            let outcome = http1::exchange(&mut stream, &head, request, &mut record).await;
            http1::give_back(head);
            stream.close();
            outcome
        };
        let outcome = match timeout_at(until, work).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let (time, phase) = (self.options.timeout.as_secs_f64(), record.phase());
                let detail = format!("no complete response within {time:.1} s: stopped {phase}");
                Err(Failure::new(kind::TIMEOUT, detail))
            }
        };
        let response = record.finish(self.options.version, outcome);
        Tunnelled { response, tunnel }
    }

    /// Returns the server behind the proxy.
    fn target(&self, host: &str, port: u16) -> Result<Endpoint, Failure> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            let detail = format!("`{host}` is not a valid server name in TLS");
            Failure::new(kind::REQUEST, detail)
        })?;
        let place = place(host, port);
        let usual = place.strip_suffix(":443");
        Ok(Endpoint {
            host: host.to_owned(),
            port,
            authority: usual.unwrap_or(&place).to_owned(),
            prefix: String::new(),
            addresses: Vec::new(),
            tls: Some((self.tls.clone(), name)),
        })
    }

    async fn open(
        &self,
        target: &Endpoint,
        place: &str,
        record: &mut Record<'_>,
        tunnel: &mut Option<Duration>,
    ) -> Result<Stream, Failure> {
        let began = Instant::now();
        let until = began + self.options.connect_timeout;
        let tcp = dial(&self.proxy.addresses, until).await?;
        // Fails if the connection is already closed, which the next step reports.
        let _ = tcp.set_nodelay(true);
        record.connected(&tcp, began.elapsed());
        let connected = Instant::now();
        let asked = self.ask(Stream::Plain(tcp), place, record);
        let tcp = match timeout_at(until, asked).await {
            Ok(tcp) => tcp?,
            Err(_) => return Err(too_late("no tunnel", self.options.connect_timeout)),
        };
        *tunnel = Some(connected.elapsed());
        let stream = Stream::secure(tcp, target, &self.options, until, record).await?;
        record.ready = std::time::Instant::now();
        Ok(stream)
    }

    /// Requests a tunnel from the proxy.
    async fn ask(
        &self,
        mut stream: Stream,
        place: &str,
        record: &mut Record<'_>,
    ) -> Result<tokio::net::TcpStream, Failure> {
        let mut head = format!("CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n");
        if let Some(value) = &self.authorization {
            head.push_str(&format!("proxy-authorization: {value}\r\n"));
        }
        head.push_str("\r\n");
        // The bytes after the head belong to the tunnel: the response has no body.
        let mut asked = Record::new(Answer::new(true, ReceivedBody::limited(0)));
        let request = Request::new(&Method::CONNECT, "*");
        let head = head.as_bytes();
        let outcome = http1::exchange(&mut stream, head, &request, &mut asked).await;
        record.bytes_out += asked.bytes_out;
        record.bytes_in += asked.bytes_in;
        match (asked.answer.status, outcome) {
            (200..=299, Ok(())) => (),
            (status @ (1..=199 | 300..), _) => {
                let detail = format!("the proxy responded to CONNECT {place} with {status}");
                return Err(Failure::new(kind::PROXY, detail));
            }
            (200..=299, Err(_)) => {
                let detail = format!(
                    "the proxy accepted CONNECT {place} and sent more bytes before the TLS handshake"
                );
                return Err(Failure::new(kind::PROXY, detail));
            }
            (_, Err(failure)) => return Err(failure),
            (_, Ok(())) => {
                return Err(Failure::new(
                    kind::PROXY,
                    "the response of the proxy has no status",
                ));
            }
        }
        match stream {
            Stream::Plain(tcp) => Ok(tcp),
            Stream::Tls(_) => Err(Failure::new(kind::PROXY, "the proxy speaks TLS")),
        }
    }
}

/// Formats the target of CONNECT (RFC 9112, section 3.2.3).
fn place(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
