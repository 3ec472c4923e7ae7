//! What a client sends after CONNECT: TLS, which is answered in the server's
//! place, or something else, which is passed on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lucarne_mint::store::{Host, Minted};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use crate::connect::pass;
use crate::core::Core;
use crate::failure::Failure;
use crate::hosts::Seen;
use crate::pool::{Connection, Route};
use crate::rules::Action;
use crate::serve;
use crate::session::{Fixed, Session};
use crate::stream::Rewind;
use crate::target::Target;

/// The first byte of a TLS handshake (RFC 8446 5.1).
const HANDSHAKE: u8 = 22;

/// How long a client may keep silent before it is taken for one that waits for
/// the server to speak first, as mail does.
const SILENCE: Duration = Duration::from_secs(3);

/// Serves a connection that was asked for by CONNECT.
pub(crate) async fn intercept(core: Arc<Core>, client: SocketAddr, target: Target, stream: Rewind) {
    let silence = SILENCE.min(core.limits.handshake);
    match timeout(silence, stream.first()).await {
        Ok(Ok(Some(HANDSHAKE))) => {}
        Ok(Ok(None) | Err(_)) => return,
        Ok(Ok(Some(_))) | Err(_) => return tunnel(&core, client, &target, stream).await,
    }
    match hello(&core, stream).await {
        Ok(start) => Box::pin(take(core, client, target, start)).await,
        Err(why) => tracing::info!(%client, %target, "no TLS with the client: {why}"),
    }
}

/// Passes everything on, if the server can be reached. There is no way to say
/// why not.
async fn tunnel(core: &Core, client: SocketAddr, target: &Target, stream: Rewind) {
    core.hosts.connection(&target.host);
    match core.upstream.tcp(target).await {
        Ok(server) => pass(core, stream, server).await,
        Err(failure) => {
            core.stats.failed(failure.kind());
            tracing::info!(%client, %target, "{failure}");
        }
    }
}

/// Reads the ClientHello; what was read can be passed on all the same.
async fn hello(core: &Core, mut stream: Rewind) -> Result<StartHandshake<Rewind>, String> {
    stream.record();
    let reading = LazyConfigAcceptor::new(Acceptor::default(), stream);
    match timeout(core.limits.handshake, reading).await {
        Ok(Ok(start)) => Ok(start),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            core.stats.stalled.inc();
            Err("it did not finish its ClientHello in time".to_owned())
        }
    }
}

/// What a ClientHello asks for.
struct Wishes {
    name: Option<Host>,
    http1: bool,
    http2: bool,
    /// It speaks a protocol, and that is not HTTP.
    other: bool,
}

impl Wishes {
    fn of(hello: &ClientHello<'_>) -> Self {
        let name = hello.server_name().and_then(|name| Host::parse(name).ok());
        let protocols: Option<Vec<&[u8]>> = hello.alpn().map(Iterator::collect);
        let offers = |name: &[u8]| protocols.iter().flatten().any(|offer| *offer == name);
        let http2 = offers(b"h2");
        let http1 = protocols.is_none() || offers(b"http/1.1") || offers(b"http/1.0");
        Wishes {
            name,
            http1,
            http2,
            other: !http1 && !http2,
        }
    }
}

/// Decides what becomes of a TLS connection, and does it.
async fn take(
    core: Arc<Core>,
    client: SocketAddr,
    target: Target,
    mut start: StartHandshake<Rewind>,
) {
    let wishes = Wishes::of(&start.client_hello());
    let named = wishes.name.clone().map(|host| Target {
        host,
        port: target.port,
    });
    let also = named.as_ref().filter(|_| target.host.ip().is_some());
    if wishes.other || core.rules.load().action(&target, also) == Action::Tunnel {
        let StartHandshake { mut io, .. } = start;
        io.rewind();
        return tunnel(&core, client, &target, io).await;
    }
    start.io.forget();
    let host = wishes.name.clone().unwrap_or_else(|| target.host.clone());
    let route = Arc::new(Route {
        target,
        tls: Some(host.clone()),
    });
    let refused = named.and_then(|named| core.rules.load().permit(&named).err());
    let seen = core.hosts.connection(&host);
    let (certificate, choice) = tokio::join!(
        certificate(&core, &host, &seen),
        choose(&core, &route, &wishes, refused.map(Failure::Refused))
    );
    let minted = match certificate {
        Ok(minted) => minted,
        Err(failure) => {
            core.stats.failed(failure.kind());
            return tracing::warn!(%client, %host, "{failure}");
        }
    };
    let Some(stream) = handshake(&core, client, &host, start, &minted, choice.http2).await else {
        return;
    };
    core.stats.intercepted.inc();
    let session = Session {
        core,
        client,
        fixed: Some(Fixed {
            route,
            http2: choice.http2,
            seen,
            ready: Mutex::new(choice.ready),
            dialling: tokio::sync::Mutex::default(),
        }),
    };
    serve::intercepted(Arc::new(session), stream).await;
}

/// The certificate for a host.
async fn certificate(core: &Core, host: &Host, seen: &Seen) -> Result<Arc<Minted>, Failure> {
    let asked = Instant::now();
    let minted = core.minter.certificate(host).await.map_err(Failure::Mint)?;
    seen.minted(minted.made_in);
    if !seen
        .intercepted
        .swap(true, std::sync::atomic::Ordering::Relaxed)
    {
        tracing::debug!(%host, took = ?asked.elapsed(), "the first connection to a host");
    }
    Ok(minted)
}

/// What is spoken with the client, and a connection if that took one.
struct Choice {
    http2: bool,
    ready: Option<Result<Connection, Failure>>,
}

/// A client that could speak HTTP/2 gets it where the server speaks it, or
/// where it wants nothing else. To know, the server is asked, unless it was
/// before.
async fn choose(core: &Core, route: &Route, wishes: &Wishes, refused: Option<Failure>) -> Choice {
    let choice = |http2, ready| Choice { http2, ready };
    if let Some(failure) = refused {
        return choice(wishes.http2, Some(Err(failure)));
    }
    if !wishes.http2 {
        return choice(false, None);
    }
    if let Some(known) = core.upstream.pool.speaks_http2(route) {
        return choice(known || !wishes.http1, None);
    }
    match core.upstream.connect(route, true).await {
        Ok(Connection::Http2(sender)) => {
            core.upstream.pool.share(route, sender);
            choice(true, None)
        }
        ready => choice(!wishes.http1, Some(ready)),
    }
}

async fn handshake(
    core: &Core,
    client: SocketAddr,
    host: &Host,
    start: StartHandshake<Rewind>,
    minted: &Minted,
    http2: bool,
) -> Option<TlsStream<Rewind>> {
    let config = match http2 {
        true => minted.server_config.clone(),
        false => http1_only(start.client_hello().alpn().is_some(), minted),
    };
    match timeout(core.limits.handshake, start.into_stream(config)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            failed(core, client, host, &error);
            None
        }
        Err(_) => {
            core.stats.stalled.inc();
            tracing::info!(%client, %host, "the client did not finish its TLS handshake in time");
            None
        }
    }
}

/// The same certificate for a server that does not speak HTTP/2.
fn http1_only(matters: bool, minted: &Minted) -> Arc<ServerConfig> {
    if !matters {
        return minted.server_config.clone();
    }
    let mut config = ServerConfig::clone(&minted.server_config);
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    Arc::new(config)
}

/// A handshake failed on the client's side: mostly because it does not trust
/// the CA, which is worth a word.
fn failed(core: &Core, client: SocketAddr, host: &Host, error: &io::Error) {
    use rustls::AlertDescription::{BadCertificate, CertificateUnknown, UnknownCA};
    let inner = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::AlertReceived(
            alert @ (BadCertificate | CertificateUnknown | UnknownCA),
        )) => {
            core.stats.distrusted.inc();
            tracing::info!(
                %client,
                %host,
                "the client does not trust the proxy's CA ({alert:?}): install the certificate \
                 that GET /ca.pem gives, or pass the host on untouched by a rule"
            );
        }
        _ => tracing::info!(%client, %host, "no TLS with the client: {error}"),
    }
}
