//! The proxy: listening, replacing its settings while it runs, and stopping.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use lucarne_mint::Authority;
use lucarne_mint::store::{Minter, StoreStats};
use lucarne_net::OpenConnections;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use rustls::KeyLog;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::core::{Core, Open, Phase};
use crate::dial::prepare;
use crate::hosts::{HostRow, Hosts};
use crate::identity::ClientCertificate;
use crate::learned::{Learned, LearnedRow};
use crate::limits::Limits;
use crate::observe::Observer;
use crate::records::Recorder;
use crate::rules::Rules;
use crate::serve;
use crate::stats::{Stats, Totals};
use crate::upstream::{Upstream, UpstreamRoutes};
use crate::users::Users;
use crate::verify::Trust;

/// Settings of a proxy.
pub struct ProxySettings {
    /// Source of the certificates for intercepted hosts.
    pub minter: Arc<Minter>,
    /// Roots that certificates of servers must chain to.
    pub trust: Trust,
    /// Upstream proxies and client certificates.
    pub upstream_routes: UpstreamRoutes,
    /// Rules of permitted targets and interception.
    pub rules: Rules,
    /// Users of the proxy; `None` admits every client.
    pub users: Option<Users>,
    /// Limits of sizes, numbers and times.
    pub limits: Limits,
    /// Whether minted certificates copy names, validity and kind of key of the server's
    /// certificate.
    pub resemble: bool,
    /// Observer that receives the servers' certificates.
    pub observer: Option<Arc<Observer>>,
    /// Receiver of TLS secrets, for decrypting recorded traffic with clients and servers. `None`
    /// logs no secrets.
    pub key_log: Option<Arc<dyn KeyLog>>,
    /// Receiver of the records of finished exchanges. `None` creates no records.
    pub recorder: Option<Arc<Recorder>>,
}

/// A proxy. Clones share its state and are cheap.
#[derive(Clone)]
pub struct Proxy(Arc<Core>);

/// Interval between checks of idle connections.
const SWEEP: Duration = Duration::from_secs(5);

impl Proxy {
    /// Creates a proxy that does not listen yet.
    ///
    /// # Errors
    /// If TLS cannot be set up, for example because there are no trusted roots.
    pub fn new(settings: ProxySettings) -> Result<Self, rustls::Error> {
        let rules = Arc::new(ArcSwap::from_pointee(settings.rules));
        let limits = settings.limits;
        let upstream = Upstream::new(
            rules.clone(),
            settings.trust,
            settings.upstream_routes,
            &limits,
            (
                settings.observer,
                if settings.resemble { limits.hosts } else { 0 },
            ),
            settings.key_log.clone(),
        )?;
        let (phase, _) = watch::channel(Phase::Running);
        Ok(Proxy(Arc::new(Core {
            rules,
            users: ArcSwapOption::from_pointee(settings.users),
            minter: settings.minter,
            upstream,
            key_log: settings.key_log,
            stats: Stats::default(),
            recorder: settings.recorder,
            hosts: Hosts::new(limits.hosts),
            learned: Learned::default(),
            name: name()?,
            phase,
            open: OpenConnections::default(),
            clients: Mutex::default(),
            limits,
        })))
    }

    /// Serves clients on these sockets until `shutdown` completes. Then accepts no more
    /// connections, waits for requests in progress for up to [`Limits::drain`], cuts off the rest
    /// and returns.
    ///
    /// # Errors
    /// If the system does not return the address of a socket.
    pub async fn serve(
        &self,
        listeners: Vec<TcpListener>,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let core = &self.0;
        for listener in &listeners {
            core.upstream
                .connector
                .dialer
                .add_own(listener.local_addr()?);
        }
        let mut tasks = tokio::task::JoinSet::new();
        for listener in listeners {
            tasks.spawn(accept(core.clone(), listener));
        }
        let sweeping = tasks.spawn(sweep(core.clone()));
        shutdown.await;
        core.phase.send_replace(Phase::Closing);
        core.open.drain(core.limits.drain).await;
        core.phase.send_replace(Phase::Cut);
        sweeping.abort();
        core.upstream.pool.clear();
        Ok(())
    }

    /// Issues certificates from another CA from now on. Open connections continue.
    ///
    /// # Errors
    /// If the certificate of the CA cannot be parsed; nothing changes.
    pub fn replace_ca(&self, ca: Authority) -> Result<(), lucarne_mint::MintError> {
        self.0.minter.replace_ca(ca)
    }

    /// Replaces the users; `None` admits every client.
    pub fn replace_users(&self, users: Option<Users>) {
        self.0.users.store(users.map(Arc::new));
    }

    /// Replaces the rules for new connections and new requests. Open tunnels continue.
    pub fn replace_rules(&self, rules: Rules) {
        self.0.rules.store(Arc::new(rules));
        // An idle connection may go to a server that the new rules refuse.
        self.0.upstream.pool.clear();
    }

    /// Replaces the client certificates for new connections.
    pub fn replace_shown(&self, shown: &[ClientCertificate]) {
        self.0.upstream.show(shown);
    }

    /// Adds an address that the proxy never connects to, for example the address of another
    /// listener of this process.
    pub fn never_connect_to(&self, address: SocketAddr) {
        self.0.upstream.connector.dialer.add_own(address);
    }

    /// Returns the CA certificate that clients must trust, in PEM.
    pub fn ca_pem(&self) -> String {
        self.0.ca_pem()
    }

    /// Returns the hosts of recent requests, the latest first.
    pub fn hosts(&self) -> Vec<HostRow> {
        self.0.hosts.rows()
    }

    /// Returns the hosts that are tunnelled because a client rejects the proxy's certificates.
    pub fn learned(&self) -> Vec<LearnedRow> {
        self.0.learned.rows()
    }

    /// Returns the receiver of records, if there is one.
    pub fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.0.recorder.as_ref()
    }

    /// Returns the totals since the start.
    pub fn totals(&self) -> Totals {
        self.0.stats.totals()
    }

    /// Returns the statistics of the certificate store.
    pub fn store_stats(&self) -> StoreStats {
        self.0.minter.stats()
    }

    /// Registers the metrics of the proxy.
    pub fn register(&self, registry: &mut Registry) {
        self.0.stats.describe(registry);
    }
}

/// Returns a random name, so that proxies in a chain have different names.
fn name() -> Result<String, rustls::Error> {
    let mut random = [0; 4];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| rustls::Error::General("random bytes are unavailable".to_owned()))?;
    Ok(format!("lucarne-{}", hex::encode(random)))
}

async fn accept(core: Arc<Core>, listener: TcpListener) {
    let accepting = async {
        loop {
            let (stream, client) = lucarne_net::accept(&listener).await;
            take(&core, stream, client);
        }
    };
    tokio::select! {
        () = accepting => {}
        () = core.reached(Phase::Closing) => {}
    }
}

fn take(core: &Arc<Core>, stream: TcpStream, client: SocketAddr) {
    prepare(&stream, core.limits.idle);
    if core.open.count() >= core.limits.connections {
        core.stats.failed("connection_limit_reached");
        return refuse(&stream, "503 Service Unavailable", TOO_MANY);
    }
    if Open::of(core, client) >= core.limits.client_connections {
        core.stats.failed("client_connection_limit_reached");
        tracing::debug!(%client, "refused: the client has reached limits.maxclientconnections");
        return refuse(&stream, "429 Too Many Requests", TOO_MANY_OF_CLIENT);
    }
    let open = Open::new(core, client);
    let core = core.clone();
    tokio::spawn(async move {
        serve::bare(core, stream, client).await;
        drop(open);
    });
}

const TOO_MANY: &str = "The proxy has reached its limit of open connections.\n";
const TOO_MANY_OF_CLIENT: &str = "Your address has reached the proxy's limit of open connections (limits.maxclientconnections).\n";

/// Refuses a connection. The client receives the explanation if the kernel accepts all bytes at
/// once, because a refused connection must cost nothing.
fn refuse(stream: &TcpStream, status: &str, why: &str) {
    // If the socket is closed with unread bytes, the kernel resets the connection.
    let _ = stream.try_read(&mut [0; 4096]);
    let length = why.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nRetry-After: 1\r\nContent-Length: {length}\r\n\
         Content-Type: text/plain\r\nConnection: close\r\n\r\n{why}"
    );
    let _ = stream.try_write(response.as_bytes());
}

async fn sweep(core: Arc<Core>) {
    let mut clock = tokio::time::interval(SWEEP);
    loop {
        clock.tick().await;
        core.upstream.pool.sweep();
    }
}
