//! Running proxy: listeners, signals, shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use lucarne_mint::CaDirectory;
use lucarne_mint::store::Minter;
use lucarne_net::counted;
use lucarne_proxy::observe::Observer;
use lucarne_proxy::{Admin, Proxy, ProxySettings, Recorder, Trust, UpstreamRoutes};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::config::Config;
use super::pairs::Pairs;
use super::recording::RecordFiles;
use super::{Options, live, open};
use crate::causes::causes;
use crate::config::Listen;
use crate::logging::Logging;
use crate::signals::{Signals, Wish};
use crate::{notify, process_metrics};

/// Runs the proxy until a signal or a key of the live view stops it.
pub(super) async fn run(config: Config, options: &Options, logging: &Logging) -> Result<()> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let directory = CaDirectory::at(&config.ca);
    let (ca, made) = open::authority(&directory)?;
    open::warn_of_ca(&directory, &ca)?;
    let minter = Arc::new(open::minter(&config, ca)?);
    let pairs = Pairs::read(&config)?;
    minter.replace_own(pairs.own());
    let upstream_routes = UpstreamRoutes {
        through: open::through(&config)?,
        shown: pairs.shown(),
    };
    let (trust, roots) = open::trust(&config)?;
    let observer = tokio::select! {
        observer = open::observer(&config, &trust, roots) => observer?,
        signal = signals.stop() => {
            tracing::info!("{signal}: stopped before the log list was read");
            return Ok(());
        }
    };
    let files = RecordFiles::open(&config)?;
    // The sockets open last: until then, clients are refused at once instead of waiting.
    let listeners = bind_all(&config.listen)?;
    let recorder = files.recorder(&config, options.live());
    let proxy = proxy(
        &config,
        minter.clone(),
        trust,
        upstream_routes,
        &observer,
        recorder,
    )?;
    let addresses = addresses(&listeners)?;
    let admin = match &config.admin {
        Some(place) => {
            let register = |registry: &mut Registry| {
                observer.register(registry);
                logging.register(registry);
                files.register(registry);
            };
            Some(serve_admin(place, &proxy, observer.clone(), register)?)
        }
        None => None,
    };
    greet(&config, &directory, made, &addresses, admin);
    notify::ready();
    let mut notifying = JoinSet::new();
    let reported = proxy.clone();
    notifying.spawn(notify::keep_status(move || status(&reported)));
    let (stop, stopped) = oneshot::channel();
    let upkeep = tokio::spawn(upkeep(
        (config, options.clone()),
        directory.clone(),
        (minter, pairs, files.clone()),
        proxy.clone(),
        signals,
        stop,
    ));
    let screen = options
        .live()
        .then(|| live::Screen::start(proxy.clone(), &addresses, admin));
    let quit = live::quit(&screen);
    let shutdown = async {
        tokio::select! {
            _ = stopped => {}
            () = quit => {}
        }
        notifying.abort_all();
        notify::stopping();
    };
    let served = proxy.serve(listeners, shutdown).await;
    drop(screen);
    upkeep.abort();
    files.flush();
    tracing::info!("stopped");
    served.context("the proxy cannot accept connections")
}

fn proxy(
    config: &Config,
    minter: Arc<Minter>,
    trust: Trust,
    upstream_routes: UpstreamRoutes,
    observer: &Arc<Observer>,
    recorder: Option<Arc<Recorder>>,
) -> Result<Proxy> {
    Proxy::new(ProxySettings {
        minter,
        trust,
        upstream_routes,
        rules: config.rules.clone(),
        users: open::users(&config.users)?,
        limits: config.limits.clone(),
        observer: Some(observer.clone()),
        key_log: open::key_log()?,
        recorder,
        resemble: config.resemble,
    })
    .context("TLS cannot be set up")
}

/// Returns the load of the proxy on one line, for the service manager.
fn status(proxy: &Proxy) -> String {
    let totals = proxy.totals();
    let (open, requests) = (totals.open, totals.requests);
    let (open, requests) = (
        counted(open, "open connection"),
        counted(requests, "request"),
    );
    format!("{open}, {requests} so far")
}

fn bind_all(places: &[Listen]) -> Result<Vec<TcpListener>> {
    places.iter().map(|place| bind(place, "--listen")).collect()
}

/// Number of connections that the kernel queues for accept.
const BACKLOG: u32 = 4096;

/// Listens on the first usable address of `place`.
fn bind(place: &Listen, option: &str) -> Result<TcpListener> {
    let listen = |address: &SocketAddr| {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(*address)?;
        socket.listen(BACKLOG)
    };
    let mut failure = None;
    for address in &place.addresses {
        match listen(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let why = failure.map_or("the host resolves to no address".to_owned(), |error| {
        error.to_string()
    });
    Err(anyhow::anyhow!(
        "cannot listen on {place}: {why}; configure another address with {option}"
    ))
}

fn addresses(listeners: &[TcpListener]) -> Result<Vec<SocketAddr>> {
    let addresses = listeners.iter().map(TcpListener::local_addr);
    addresses
        .collect::<Result<_, _>>()
        .context("cannot read the address of the proxy")
}

fn serve_admin(
    place: &Listen,
    proxy: &Proxy,
    observer: Arc<Observer>,
    register: impl FnOnce(&mut Registry),
) -> Result<SocketAddr> {
    let listener = bind(place, "--admin")?;
    let address = listener
        .local_addr()
        .context("cannot read the address of the page")?;
    proxy.never_connect_to(address);
    let mut registry = Registry::default();
    proxy.register(&mut registry);
    register(&mut registry);
    process_metrics::register(&mut registry);
    let admin = Admin::new(proxy.clone(), Some(observer), registry);
    tokio::spawn(admin.serve(listener));
    Ok(address)
}

/// Prints the addresses. Scripts read them from standard output, which is not the log.
fn greet(
    config: &Config,
    directory: &CaDirectory,
    made: bool,
    addresses: &[SocketAddr],
    admin: Option<SocketAddr>,
) {
    if made {
        outln!(
            "created a CA in {}\n\n{}",
            config.ca.display(),
            directory.trust_hints()
        );
    }
    for address in addresses {
        outln!("proxy on http://{address}");
    }
    if let Some(address) = admin {
        outln!("page on http://{address}/");
    }
    for (address, users) in addresses.iter().map(|a| (a, &config.users)) {
        if !address.ip().is_loopback() && users.file.is_none() && users.given.is_empty() {
            tracing::warn!(
                "other machines can reach {address}, and the proxy has no users: configure users \
                 (--users FILE), or listen on 127.0.0.1"
            );
        }
    }
    if config.insecure {
        tracing::warn!("--insecure: certificates of servers are not verified");
    }
}

/// Interval at which certificate files are checked.
const WATCH: Duration = Duration::from_secs(2);

/// Rereads changed files, and handles signals until one stops the proxy.
async fn upkeep(
    (config, options): (Config, Options),
    directory: CaDirectory,
    (minter, mut pairs, files): (Arc<Minter>, Pairs, RecordFiles),
    proxy: Proxy,
    mut signals: Signals,
    stop: oneshot::Sender<()>,
) {
    let mut look = tokio::time::interval(WATCH);
    loop {
        let wish = tokio::select! {
            wish = signals.next() => wish,
            _ = look.tick() => {
                if pairs.changed() {
                    pairs.reread(&minter, &proxy);
                }
                continue;
            }
        };
        match wish {
            Wish::Reread => {
                tracing::info!(
                    "SIGHUP: reading the rules, the CA, the users and certificates again, and \
                     reopening the access log and the HAR file"
                );
                notify::reloading();
                reread_rules(&options, &proxy);
                reread(&config, &directory, &proxy);
                pairs.reread(&minter, &proxy);
                files.reopen();
                notify::reloaded();
            }
            Wish::Successor => tracing::warn!("SIGUSR2: the proxy does not support handover"),
            Wish::Stop(name) => {
                tracing::info!("{name}: accepting no more connections, finishing the open ones");
                // The receiver is closed if the proxy has already stopped.
                let _ = stop.send(());
                return signals.exit_at_next();
            }
        }
    }
}

/// Rereads the rules from the configuration. With an invalid configuration, nothing changes.
fn reread_rules(options: &Options, proxy: &Proxy) {
    match super::read(options) {
        Ok(config) => {
            proxy.replace_rules(config.rules);
            tracing::info!("rules read");
        }
        Err(report) => {
            for line in report.problem_lines() {
                tracing::error!("{line}; the rules stay as they were");
            }
        }
    }
}

/// Rereads the CA and the users. A file that cannot be read changes nothing.
fn reread(config: &Config, directory: &CaDirectory, proxy: &Proxy) {
    let ca = directory.open().map_err(anyhow::Error::from);
    let replaced = ca.and_then(|ca| {
        open::warn_of_ca(directory, &ca)?;
        Ok(proxy.replace_ca(ca)?)
    });
    match replaced {
        Ok(()) => tracing::info!(directory = %config.ca.display(), "CA read"),
        Err(error) => tracing::error!("{}; the CA stays as it was", causes(&error)),
    }
    match open::users(&config.users) {
        Ok(users) => proxy.replace_users(users),
        Err(error) => tracing::error!("{}; the users stay as they were", causes(&error)),
    }
}
