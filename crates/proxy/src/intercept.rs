//! Traffic of a client after CONNECT. The proxy responds to TLS and HTTP in place of the
//! server, and forwards other protocols.
//!
//! The proxy forwards nothing before it knows the protocol. If the client sends nothing, the proxy
//! waits for client and server at the same time. The rules apply to a ClientHello whenever it
//! arrives, even in a connection that is then forwarded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::HeaderValue;
use lucarne_mint::store::{Host, HostError, Minted};
use rustls::server::{Acceptor, ClientHello};
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use crate::checks::network;
use crate::core::Core;
use crate::failure::Failure;
use crate::handshake::{HandshakeFailure, failed, handshake};
use crate::hosts::Seen;
use crate::intercepted;
use crate::learned::Trial;
use crate::opening::{Opening, Second, ended, recognise};
use crate::pool::{Connection, Route};
use crate::records::{ClientTls, RecordAction};
use crate::relay::Link;
use crate::rules::Action;
use crate::session::{ClientSide, FixedOrigin, Session};
use crate::stream::Rewind;
use crate::target::Target;
use crate::tunnel::Connect;

impl Connect {
    /// Serves a connection after CONNECT. `server` is the connection to the server, if it exists
    /// already.
    pub(crate) async fn intercept(mut self, mut stream: Rewind, mut server: Option<Rewind<Link>>) {
        let http2 = match self.first(&mut stream, &mut server).await {
            Ok(First::Nothing) => return,
            Ok(First::Server) => {
                self.act(RecordAction::Tunnel);
                let second = Second::new(stream, self.core.limits.head_bytes);
                return self.tunnel(second, server).await;
            }
            Ok(First::Client(Opening::Other)) => {
                self.act(RecordAction::Tunnel);
                return self.tunnel(stream, server).await;
            }
            Ok(First::Client(Opening::Tls)) => {
                return match hello(&self.core, stream).await {
                    Ok(start) => Box::pin(self.take(start, server)).await,
                    Err(HelloError::Io(error)) => {
                        let failure = failed(&self.core, self.client, &self.target.host, &error);
                        failure.record(self.recording);
                    }
                    Err(why) => {
                        let Connect { client, target, .. } = &self;
                        tracing::info!(
                            %client,
                            %target,
                            "the TLS handshake with the client failed: {why}"
                        );
                        let failure = HandshakeFailure::of("connection_timeout", why.to_string());
                        failure.record(self.recording);
                    }
                };
            }
            Ok(First::Client(Opening::Http1)) => false,
            Ok(First::Client(Opening::Http2)) => true,
            Err(failure) => return self.log_failure(&failure),
        };
        let action = self.core.rules.load().action(&self.target, None);
        match action {
            Action::Tunnel => self.tunnel(stream, server).await,
            Action::Intercept | Action::Learn => Box::pin(self.clear(stream, http2)).await,
        }
    }

    /// Waits for the first bytes of the client. If the client sends nothing within
    /// `limits.silence`, connects to the server and waits for either side. A late client is handled
    /// like any other client. A client that closes its sending side without a byte may still wait
    /// for the server.
    async fn first(
        &self,
        stream: &mut Rewind,
        server: &mut Option<Rewind<Link>>,
    ) -> Result<First, Failure> {
        let core = &self.core;
        let silent = stream.before().is_empty();
        if silent && server.is_none() {
            match timeout(core.limits.silence, stream.fill()).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Ok(First::Nothing),
                Err(_) => tokio::select! {
                    filled = stream.fill() => if filled.is_err() {
                        return Ok(First::Nothing);
                    },
                    connected = core.upstream.link(&self.target, &self.via) => {
                        *server = Some(connected?);
                    }
                },
            }
        }
        if let (true, Some(server)) = (stream.before().is_empty(), server) {
            tokio::select! {
                filled = stream.fill() => if filled.is_err() {
                    return Ok(First::Nothing);
                },
                // The end of the server's stream also ends the wait.
                _ = server.fill() => return Ok(First::Server),
                // A tunnel ends after the same time without a byte.
                () = sleep(core.limits.idle) => return Ok(First::Nothing),
            }
        }
        match timeout(core.limits.handshake, opening(core, stream)).await {
            Ok(Some(opening)) => Ok(First::Client(opening)),
            Ok(None) => Ok(First::Nothing),
            Err(_) => {
                core.stats.stalled.inc();
                let why = "The client stopped within a possible HTTP request: if the protocol is \
                           not HTTP, forward the host by a rule (action: tunnel).";
                Err(Failure::Request(why.to_owned()))
            }
        }
    }

    /// Serves requests without TLS.
    async fn clear(self, stream: Rewind, http2: bool) {
        let Connect {
            core,
            client,
            target,
            via,
            recording,
        } = self;
        let side = ClientSide::new(recording, None);
        let seen = core.hosts.connection(&target.host);
        let route = Arc::new(core.upstream.route(target, None));
        let fixed = FixedOrigin::new(route, via, http2, seen, None, side);
        let session = Session::behind(core, client, fixed);
        intercepted::serve(session, stream, http2).await;
    }

    fn act(&mut self, action: RecordAction) {
        if let Some(recording) = &mut self.recording {
            recording.act(action);
        }
    }

    /// Intercepts, forwards or denies a TLS connection, as the rules decide.
    async fn take(mut self, mut start: StartHandshake<Rewind>, server: Option<Rewind<Link>>) {
        let offer = ClientOffer::of(&start.client_hello());
        let name = match &offer.name {
            Ok(name) => name.clone(),
            Err(why) => {
                let failure = Failure::Request(format!("In the ClientHello, {why}."));
                return self.deny(start.io, &failure).await;
            }
        };
        let named = name.clone().map(|host| Target {
            host,
            port: self.target.port,
        });
        let rules = self.core.rules.load_full();
        let refused = named.as_ref().and_then(|named| rules.permit(named).err());
        let refused = refused.map(Failure::Refused);
        let also = named.as_ref().filter(|_| self.target.host.ip().is_some());
        let mut action = rules.action(&self.target, also);
        // Clients choose both names: with the name of a learned host, they must not reach a host
        // that is always intercepted.
        let rule = named.as_ref().map(|named| rules.action(named, None));
        if action == Action::Learn && rule == Some(Action::Intercept) {
            action = Action::Intercept;
        }
        let host = name.unwrap_or_else(|| self.target.host.clone());
        let learned = &self.core.learned;
        let is_learned = || learned.is_tunnel(self.client, &host, Instant::now());
        if offer.other || action == Action::Tunnel || action == Action::Learn && is_learned() {
            let StartHandshake { mut io, .. } = start;
            if let Some(failure) = refused {
                return self.deny(io, &failure).await;
            }
            io.rewind();
            self.act(RecordAction::Tunnel);
            return self.tunnel(io, server).await;
        }
        start.io.forget();
        let hello = Hello {
            start,
            offer,
            host,
            refused: refused.is_some(),
            learns: action == Action::Learn,
        };
        self.terminate(hello, server).await;
    }

    /// Terminates a TLS connection in place of the server.
    async fn terminate(self, hello: Hello, server: Option<Rewind<Link>>) {
        let Connect {
            core,
            client,
            target,
            via,
            recording,
        } = self;
        let Hello {
            mut start,
            offer,
            host,
            refused,
            learns,
        } = hello;
        let route = Arc::new(core.upstream.route(target, Some(host.clone())));
        let seen = core.hosts.connection(&host);
        let verification = &core.upstream.connector.verification;
        let known = verification.likeness(&host);
        let known = known.is_some_and(|known| known.is_valid_at(SystemTime::now()));
        let dial = if refused {
            Dial::Never
        } else if verification.resembles() && !known {
            Dial::Always
        } else {
            Dial::ForProtocol
        };
        let choosing = choose(&core, &route, &via, client, &offer, dial, server);
        let (certificate, choice) = if dial == Dial::Always {
            let choice = choosing.await;
            (certificate(&core, &host, &seen).await, choice)
        } else {
            tokio::join!(certificate(&core, &host, &seen), choosing)
        };
        let minted = match certificate {
            Ok(minted) => minted,
            Err(failure) => {
                core.stats.failed(failure.kind());
                tracing::warn!(%client, %host, "{failure}");
                let failure = HandshakeFailure::of(failure.kind(), failure.to_string());
                return failure.record(recording);
            }
        };
        // A client may end its connection because the server failed.
        let server_failed = refused || matches!(choice.ready, Some(Err(_)));
        // A client that did not wait for a slow server has not seen the certificate.
        let learns = learns && !server_failed && !start.io.is_closed().await;
        let trial = learns.then(|| Trial::new(&core, client, &host));
        let stream = match handshake(&core, client, &host, start, &minted, choice.http2).await {
            Ok(stream) => stream,
            Err(failure) => {
                match trial {
                    Some(trial) if failure.rejects => trial.rejected(&failure.why),
                    Some(trial) => trial.void(),
                    None => {}
                }
                return failure.record(recording);
            }
        };
        core.stats.intercepted.inc();
        let tls = &stream.get_ref().1;
        let http2 = tls.alpn_protocol() == Some(b"h2");
        let side = ClientSide::new(recording, ClientTls::of(tls));
        let mut fixed = FixedOrigin::new(route, via, choice.http2, seen, choice.ready, side);
        fixed.trial = trial;
        intercepted::serve(Session::behind(core, client, fixed), stream, http2).await;
    }

    /// Ends a TLS connection that the rules deny.
    async fn deny(&mut self, mut stream: Rewind, failure: &Failure) {
        self.log_failure(failure);
        // A client that closed the connection early needs no alert.
        if stream.write_all(&ACCESS_DENIED).await.is_ok() {
            let _ = stream.shutdown().await;
        }
    }
}

/// The peer that sends first after CONNECT.
enum First {
    Client(Opening),
    Server,
    /// Neither peer sent a byte within the idle limit of a tunnel, or the client's connection
    /// failed.
    Nothing,
}

/// Recognises the protocol of a client that has sent its first bytes. Returns `None` if the
/// connection failed.
async fn opening(core: &Core, stream: &mut Rewind) -> Option<Opening> {
    loop {
        if let Some(opening) = recognise(stream.before(), core.limits.head_bytes) {
            return Some(opening);
        }
        match stream.fill().await {
            Ok(1..) => {}
            Ok(0) => return Some(ended(stream.before())),
            Err(_) => return None,
        }
    }
}

/// Reads the ClientHello and records it, so that it can be forwarded later.
async fn hello(core: &Core, mut stream: Rewind) -> Result<StartHandshake<Rewind>, HelloError> {
    stream.record();
    let reading = LazyConfigAcceptor::new(Acceptor::default(), stream);
    match timeout(core.limits.handshake, reading).await {
        Ok(start) => Ok(start?),
        Err(_) => {
            core.stats.stalled.inc();
            Err(HelloError::Late)
        }
    }
}

/// Reasons why there is no ClientHello.
#[derive(Debug, thiserror::Error)]
enum HelloError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the client did not finish its ClientHello in time")]
    Late,
}

/// A ClientHello that the proxy responds to.
struct Hello {
    start: StartHandshake<Rewind>,
    offer: ClientOffer,
    host: Host,
    /// The rules refuse the host: each request gets an error.
    refused: bool,
    /// The proxy learns from a rejected certificate.
    learns: bool,
}

/// Name and protocols that a ClientHello offers.
struct ClientOffer {
    name: Result<Option<Host>, HostError>,
    http1: bool,
    http2: bool,
    /// The client offers protocols by ALPN, and HTTP is not among them.
    other: bool,
}

impl ClientOffer {
    fn of(hello: &ClientHello<'_>) -> Self {
        let name = hello.server_name().map(Host::parse).transpose();
        let protocols: Option<Vec<&[u8]>> = hello.alpn().map(Iterator::collect);
        let offers = |name: &[u8]| protocols.iter().flatten().any(|offer| *offer == name);
        let http2 = offers(b"h2");
        let http1 = protocols.is_none() || offers(b"http/1.1") || offers(b"http/1.0");
        ClientOffer {
            name,
            http1,
            http2,
            other: !http1 && !http2,
        }
    }
}

/// The TLS alert `access_denied` (RFC 8446, section 6.2), as a complete record.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

async fn certificate(core: &Core, host: &Host, seen: &Seen) -> Result<Arc<Minted>, Failure> {
    let asked = Instant::now();
    let minted = match core.upstream.connector.verification.likeness(host) {
        Some(likeness) => core.minter.resembling(host, &likeness).await,
        None => core.minter.certificate(host).await,
    };
    let minted = minted.map_err(Failure::Mint)?;
    seen.minted(minted.made_in);
    if !seen
        .intercepted
        .swap(true, std::sync::atomic::Ordering::Relaxed)
    {
        tracing::debug!(%host, took = ?asked.elapsed(), "first connection to the host");
    }
    Ok(minted)
}

/// The protocol to speak with the client, and the connection to the server if the choice needed
/// one.
struct Choice {
    http2: bool,
    ready: Option<Result<Connection, Failure>>,
}

/// Condition for a connection to the server before the handshake with the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dial {
    Never,
    /// If the choice of the protocol needs the protocol of the server.
    ForProtocol,
    /// Always: the certificate for the client copies properties of the server's certificate.
    Always,
}

/// Chooses HTTP/2 for a client that offers it, if the server speaks HTTP/2 or the client offers
/// nothing else. If the protocol of the server is unknown, the proxy connects to the server first,
/// over the existing link `server` if possible. If the connection fails, each request reports the
/// failure.
async fn choose(
    core: &Core,
    route: &Route,
    via: &HeaderValue,
    client: SocketAddr,
    offer: &ClientOffer,
    dial: Dial,
    server: Option<Rewind<Link>>,
) -> Choice {
    let choice = |http2, ready| Choice { http2, ready };
    if dial == Dial::Never || dial == Dial::ForProtocol && !offer.http2 {
        return choice(offer.http2, None);
    }
    let known = core.upstream.pool.speaks_http2(route);
    if let (Some(known), Dial::ForProtocol) = (known, dial) {
        return choice(known || !offer.http1, None);
    }
    let client = offer.http2.then(|| network(client.ip()));
    let over_link = match server {
        Some(link) => Some(core.upstream.connect_over(link, route, client).await),
        None => None,
    };
    let connected = match over_link {
        // The server may have closed the link while the client was silent.
        None | Some(Err(Failure::Closed(_) | Failure::Tls(_))) => {
            core.upstream.connect(route, client, via).await
        }
        Some(connected) => connected,
    };
    match connected {
        Ok(Connection::Http2(connection, _)) => {
            core.upstream.pool.share(route, connection);
            choice(true, None)
        }
        ready => choice(!offer.http1, Some(ready)),
    }
}
