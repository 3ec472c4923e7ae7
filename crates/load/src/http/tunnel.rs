//! Requests through an HTTP proxy: a tunnel (CONNECT, RFC 9110 section 9.3.6),
//! TLS within it, and a request within that.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::exchange::Record;
use super::stream::{Stream, dial, too_late};
use super::{ClientOptions, Endpoint, EndpointError, Request, Response, Version, http1, kind, tls};
use crate::Failure;

/// A proxy, and how requests go through it: each over a connection, a tunnel and
/// a TLS handshake of its own. HTTP/1.1.
#[derive(Debug)]
pub struct Tunnel {
    proxy: Arc<Endpoint>,
    options: Arc<ClientOptions>,
    tls: Arc<ClientConfig>,
    /// The value of `proxy-authorization`.
    authorization: Option<String>,
}

/// The response of a tunnel's target.
#[derive(Clone, Debug)]
pub struct Tunnelled {
    /// The answer. Of its phases, `connect` is the connection to the proxy, and
    /// `tls` the handshake with whoever answers within the tunnel.
    pub response: Response,
    /// From the connection to the proxy until the proxy had answered CONNECT.
    pub tunnel: Option<Duration>,
}

impl Tunnel {
    /// Through the proxy at `url` (`http://host:port`). Its address is looked up
    /// now, those of hosts behind it never.
    ///
    /// # Errors
    /// A URL that is none of a plain HTTP proxy, or options that make no sense.
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
            return Err(wrong("a proxy is spoken to in plain HTTP (http://)"));
        }
        if options.version != Version::Http1 {
            return Err(wrong("requests go through a proxy by HTTP/1.1 alone"));
        }
        let tls = tls::config(&options)?;
        Ok(Self {
            proxy,
            options,
            tls,
            authorization,
        })
    }

    /// The version of HTTP that goes through it, as reports call it.
    pub fn protocol(&self) -> &'static str {
        self.options.version.name()
    }

    /// Returns the endpoint of the proxy.
    pub fn proxy(&self) -> &Endpoint {
        &self.proxy
    }

    /// Connects to the proxy, and hangs up.
    ///
    /// # Errors
    /// If that does not work.
    pub async fn reach(&self) -> Result<(), Failure> {
        let until = Instant::now() + self.options.connect_timeout;
        dial(&self.proxy.addresses, until).await.map(|_| ())
    }

    /// Sends a request to `host:port`, by way of the proxy. `address` is what
    /// CONNECT names in the host's stead: then TLS alone tells the host (SNI).
    pub async fn send(
        &self,
        host: &str,
        port: u16,
        address: Option<&str>,
        request: &Request<'_>,
    ) -> Tunnelled {
        let answer = Answer::new(request.method == Method::HEAD, self.options.max_body);
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
                let detail = format!("no whole answer within {time:.1} s; it ran out {phase}");
                Err(Failure::new(kind::TIMEOUT, detail))
            }
        };
        let response = record.finish(self.options.version, outcome);
        Tunnelled { response, tunnel }
    }

    /// The server behind the proxy.
    fn target(&self, host: &str, port: u16) -> Result<Endpoint, Failure> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            let detail = format!("TLS cannot ask for a host called `{host}`");
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
        record: &mut Record,
        tunnel: &mut Option<Duration>,
    ) -> Result<Stream, Failure> {
        let began = Instant::now();
        let until = began + self.options.connect_timeout;
        let tcp = dial(&self.proxy.addresses, until).await?;
        // Fails on a connection that is gone already, which the next step will say.
        let _ = tcp.set_nodelay(true);
        record.connect = Some(began.elapsed());
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

    /// Asks the proxy for a tunnel.
    async fn ask(
        &self,
        mut stream: Stream,
        place: &str,
        record: &mut Record,
    ) -> Result<tokio::net::TcpStream, Failure> {
        let mut head = format!("CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n");
        if let Some(value) = &self.authorization {
            head.push_str(&format!("proxy-authorization: {value}\r\n"));
        }
        head.push_str("\r\n");
        // After a tunnel's head comes what the other end says: no body.
        let mut asked = Record::new(Answer::new(true, 0));
        let request = Request::new(&Method::CONNECT, "*");
        let head = head.as_bytes();
        let outcome = http1::exchange(&mut stream, head, &request, &mut asked).await;
        record.bytes_out += asked.bytes_out;
        record.bytes_in += asked.bytes_in;
        match (asked.answer.status, outcome) {
            (200..=299, Ok(())) => (),
            (status @ (1..=199 | 300..), _) => {
                let detail = format!("the proxy answered CONNECT {place} with {status}");
                return Err(Failure::new(kind::PROXY, detail));
            }
            (200..=299, Err(_)) => {
                let detail = format!(
                    "the proxy accepted CONNECT {place} and sent more bytes before the TLS handshake"
                );
                return Err(Failure::new(kind::PROXY, detail));
            }
            (_, Err(failure)) => return Err(failure),
            (_, Ok(())) => return Err(Failure::new(kind::PROXY, "the proxy gave no status")),
        }
        match stream {
            Stream::Plain(tcp) => Ok(tcp),
            Stream::Tls(_) => Err(Failure::new(kind::PROXY, "the proxy speaks TLS")),
        }
    }
}

/// As CONNECT names it (RFC 9112 section 3.2.3).
fn place(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}
