//! Inherited and new listening sockets.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use listenfd::ListenFd;
use lucarne_http::{BindError, Listener, Tls};

use crate::config::{Config, Listen};

/// A listening socket with its name: the text in the other process's configuration, or the name
/// from systemd.
pub(crate) type Socket = (String, OwnedFd);

/// Returns the sockets that systemd passes to this process (`LISTEN_FDS`), with their names
/// (`LISTEN_FDNAMES`).
///
/// # Errors
/// If a socket is not a TCP socket.
pub(crate) fn activated() -> Result<Vec<Socket>> {
    let mut given = ListenFd::from_env();
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut sockets = Vec::new();
    for number in 0..given.len() {
        let name = names
            .next()
            .filter(|name| !name.is_empty())
            .unwrap_or("unnamed");
        let socket = given.take_tcp_listener(number);
        let socket =
            socket.with_context(|| format!("cannot use systemd socket {number}, `{name}`"))?;
        let Some(socket) = socket else { continue };
        let socket = OwnedFd::from(socket);
        // Commands that print secrets must not inherit the socket.
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        sockets.push((format!("{name} of systemd"), socket));
    }
    Ok(sockets)
}

/// Listens on all configured addresses, and uses the matching sockets in `sockets`. `option` names
/// the option for the address, for messages.
///
/// # Errors
/// If an address cannot be used.
pub(crate) async fn all(
    config: &Config,
    sockets: Vec<Socket>,
    option: &str,
    tls: Option<&Arc<Tls>>,
) -> Result<Vec<Listener>> {
    let mut given = Vec::new();
    for (name, socket) in sockets {
        let listener = Listener::from_socket(socket);
        given.push((
            listener.with_context(|| format!("cannot use socket `{name}`"))?,
            name,
        ));
    }
    let mut listeners = Vec::new();
    for place in &config.listen {
        let place = &place.value;
        let of_place = |(listener, name): &(Listener, String)| {
            let there = listener
                .local_addr()
                .is_ok_and(|it| place.addresses.contains(&it));
            there || *name == place.to_string()
        };
        let listener = match given.iter().position(of_place) {
            Some(found) => given.swap_remove(found).0,
            None => bind(place, option).await?,
        };
        listeners.push(match tls {
            Some(tls) => listener.with_tls(Arc::clone(tls)),
            None => listener,
        });
    }
    for (listener, name) in given {
        let address = listener.local_addr()?;
        if name.ends_with(" of systemd") {
            bail!(
                "socket {name} listens on {address}, which is not in {option}: add the address \
                 there, or remove the socket from its unit"
            );
        }
        tracing::info!(%address, "closed a socket that is no longer configured");
    }
    Ok(listeners)
}

/// Binds the first usable address of `place`. `option` names the option for the address, for
/// messages.
///
/// # Errors
/// If no address can be bound; with the reason and the remedy.
pub(crate) async fn bind(place: &Listen, option: &str) -> Result<Listener> {
    let mut failure = None;
    // `:port` means all addresses of both families, unlike `[::]:port`.
    let everywhere = place.everywhere().into_iter();
    let addresses = place.addresses.iter().map(ToString::to_string);
    for address in everywhere.chain(addresses) {
        match Listener::bind(&address).await {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(match failure {
        None => anyhow!("cannot listen on {place}: the host resolves to no address"),
        Some(BindError::Taken { .. }) => anyhow!(
            "cannot listen on {place}: another process uses this address: stop that process, or \
             configure another address with {option}"
        ),
        Some(BindError::Unusable { error, .. }) => {
            anyhow!("cannot listen on {place}: {error}; configure another address with {option}")
        }
    })
}
