//! Fixtures for the tests of the proxy: the proxy, servers behind it, and clients of it.
#![allow(dead_code)]

pub(crate) mod client;
pub(crate) mod origin;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lucarne_mint::store::{CertificateStore, MemoryStore, MintOptions, Minter, StoreOptions};
use lucarne_mint::{Authority, CaOptions, KeyType};
use lucarne_proxy::{Limits, Proxy, ProxySettings, Recorder, Rules, Trust, UpstreamRoutes, Users};
use rustls::pki_types::CertificateDer;
use rustls::{KeyLog, RootCertStore};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Time limit for an event. No event takes as long, even on a busy machine.
pub(crate) const EVENT_TIMEOUT: Duration = lucarne_testkit::EVENT_TIMEOUT;

/// Creates a separate CA.
pub(crate) fn authority(name: &str) -> Authority {
    Authority::root(&CaOptions::named(name, KeyType::EcdsaP256)).unwrap()
}

/// Root store that contains this CA only.
pub(crate) fn roots(ca: &Authority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(ca.cert_der().to_vec()))
        .unwrap();
    Arc::new(roots)
}

/// Returns settings that trust only this CA.
pub(crate) fn trusting(ca: &Authority) -> lucarne_net::Trust {
    let certificate = CertificateDer::from(ca.cert_der().to_vec());
    lucarne_net::Trust::none().with([certificate]).unwrap()
}

/// Settings of a proxy that is not started yet.
pub(crate) struct Setup {
    pub(crate) rules: Rules,
    pub(crate) limits: Limits,
    pub(crate) users: Option<Users>,
    pub(crate) store: Arc<dyn CertificateStore>,
    pub(crate) upstream_routes: UpstreamRoutes,
    pub(crate) key_log: Option<Arc<dyn KeyLog>>,
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) resemble: bool,
    /// The CA of the servers behind the proxy.
    pub(crate) world: Authority,
}

impl Setup {
    /// Creates settings that permit connections to this machine, where all servers of the tests
    /// run.
    pub(crate) fn new() -> Self {
        Setup {
            rules: Rules {
                private: true,
                ..Rules::default()
            },
            limits: Limits {
                drain: Duration::from_millis(500),
                ..Limits::default()
            },
            users: None,
            store: Arc::new(MemoryStore::new(StoreOptions::default())),
            upstream_routes: UpstreamRoutes::default(),
            key_log: None,
            recorder: None,
            resemble: false,
            world: authority("The World"),
        }
    }

    pub(crate) async fn start(self) -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.start_on(listener).await
    }

    /// Starts the proxy on this listener, so that a test can use the address before the start.
    pub(crate) async fn start_on(self, listener: TcpListener) -> Rig {
        let ca = authority("The Proxy");
        let minter = Minter::new(ca.clone(), self.store, MintOptions::default()).unwrap();
        let trust = Trust {
            trusted: trusting(&self.world),
            insecure: Vec::new(),
            fingerprints: Vec::new(),
        };
        let proxy = Proxy::new(ProxySettings {
            minter: Arc::new(minter),
            trust,
            upstream_routes: self.upstream_routes,
            rules: self.rules,
            users: self.users,
            limits: self.limits,
            observer: None,
            key_log: self.key_log,
            recorder: self.recorder,
            resemble: self.resemble,
        })
        .unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = {
            let proxy = proxy.clone();
            tokio::spawn(async move {
                let shutdown = async { drop(stopped.await) };
                proxy.serve(vec![listener], shutdown).await.unwrap();
            })
        };
        Rig {
            proxy,
            ca,
            world: self.world,
            address,
            stop: Some(stop),
            serving,
        }
    }
}

/// A running proxy.
pub(crate) struct Rig {
    pub(crate) proxy: Proxy,
    /// First CA of the proxy, before any replacement.
    pub(crate) ca: Authority,
    pub(crate) world: Authority,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Setup::new().start().await
    }

    /// Stops the proxy, and waits for its end.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(EVENT_TIMEOUT, self.serving)
            .await
            .unwrap()
            .unwrap();
    }
}
