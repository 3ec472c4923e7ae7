//! The proxy as a whole: listening, changing while it runs, stopping.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use lucarne_mint::Authority;
use lucarne_mint::store::{Minter, StoreStats};
use lucarne_net::OpenConnections;
use prometheus_client::registry::Registry;
use rustls::KeyLog;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::core::{Core, Open, Phase};
use crate::dial::prepare;
use crate::hosts::{HostRow, Hosts};
use crate::identity::ClientCertificate;
use crate::limits::Limits;
use crate::observe::Observer;
use crate::rules::Rules;
use crate::serve;
use crate::stats::{Stats, Totals};
use crate::upstream::{Upstream, UpstreamRoutes};
use crate::users::Users;
use crate::verify::Trust;

/// Everything a proxy is made of.
pub struct ProxySettings {
    /// The source of certificates.
    pub minter: Arc<Minter>,
    /// The servers that are believed.
    pub trust: Trust,
    /// The ways to servers, and the certificates that they are shown.
    pub upstream_routes: UpstreamRoutes,
    /// Holds what may be reached, and what happens to it.
    pub rules: Rules,
    /// The users who may use it; `None`: everybody.
    pub users: Option<Users>,
    /// The limits of how much, and how long.
    pub limits: Limits,
    /// The observer that is shown the servers' certificates.
    pub observer: Option<Arc<Observer>>,
    /// The receiver of the secrets of TLS, with clients and with servers: for
    /// looking at what was recorded of the network. `None`: nobody is told.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

/// A proxy. Cheap to clone: all are the same one.
#[derive(Clone)]
pub struct Proxy(Arc<Core>);

/// The interval at which idle connections are looked through.
const SWEEP: Duration = Duration::from_secs(5);

impl Proxy {
    /// Makes a proxy, which serves nobody yet.
    ///
    /// # Errors
    /// TLS that cannot be set up: no trusted roots, say.
    pub fn new(settings: ProxySettings) -> Result<Self, rustls::Error> {
        let rules = Arc::new(ArcSwap::from_pointee(settings.rules));
        let limits = settings.limits;
        let upstream = Upstream::new(
            rules.clone(),
            settings.trust,
            settings.upstream_routes,
            &limits,
            settings.observer,
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
            hosts: Hosts::new(limits.hosts),
            name: name()?,
            phase,
            open: OpenConnections::default(),
            limits,
        })))
    }

    /// Serves clients on these sockets until `shutdown` is ready. Then takes
    /// no more connections, lets what is under way finish for up to
    /// [`Limits::drain`], cuts the rest, and returns.
    ///
    /// # Errors
    /// A socket whose address the system does not tell.
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

    /// Mints by another CA from now on. Connections that are open stay.
    ///
    /// # Errors
    /// A CA whose certificate cannot be read; then nothing changes.
    pub fn replace_ca(&self, ca: Authority) -> Result<(), lucarne_mint::MintError> {
        self.0.minter.replace_ca(ca)
    }

    /// Others may use it from now on; `None`: everybody.
    pub fn replace_users(&self, users: Option<Users>) {
        self.0.users.store(users.map(Arc::new));
    }

    /// Other rules hold from now on, for connections that begin.
    pub fn replace_rules(&self, rules: Rules) {
        self.0.rules.store(Arc::new(rules));
        // What was allowed once may be no more.
        self.0.upstream.pool.clear();
    }

    /// Shows servers these certificates from the next connection on.
    pub fn replace_shown(&self, shown: &[ClientCertificate]) {
        self.0.upstream.show(shown);
    }

    /// Another address that the proxy must not be made to connect to: of a
    /// listener of the same process.
    pub fn never_connect_to(&self, address: SocketAddr) {
        self.0.upstream.connector.dialer.add_own(address);
    }

    /// The certificate that clients must trust.
    pub fn ca_pem(&self) -> String {
        self.0.ca_pem()
    }

    /// The hosts asked for most recently, the last one first.
    pub fn hosts(&self) -> Vec<HostRow> {
        self.0.hosts.rows()
    }

    /// Returns what was counted so far.
    pub fn totals(&self) -> Totals {
        self.0.stats.totals()
    }

    /// Returns what the store did so far.
    pub fn store_stats(&self) -> StoreStats {
        self.0.minter.stats()
    }

    /// Adds the proxy's metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.0.stats.register(registry);
    }
}

/// A name that no other proxy has.
fn name() -> Result<String, rustls::Error> {
    let mut random = [0; 4];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| rustls::Error::General("there are no random numbers".to_owned()))?;
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
        // A word of explanation, if the kernel takes it at once.
        let _ = stream.try_write(TOO_MANY);
        return;
    }
    let open = Open::new(core);
    let core = core.clone();
    tokio::spawn(async move {
        serve::bare(core, stream, client).await;
        drop(open);
    });
}

const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 54\r\n\
    Content-Type: text/plain\r\nConnection: close\r\n\r\n\
    The proxy has as many connections as it may have now.\n";

async fn sweep(core: Arc<Core>) {
    let mut clock = tokio::time::interval(SWEEP);
    loop {
        clock.tick().await;
        core.upstream.pool.sweep();
    }
}
