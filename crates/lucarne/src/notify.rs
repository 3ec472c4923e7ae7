//! What systemd is told of this process (`sd_notify(3)`).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells it that this process serves, and is the service's main one from now on, if it
/// has asked to be told.
pub(crate) fn ready() {
    let Ok(place) = std::env::var("NOTIFY_SOCKET") else {
        return;
    };
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&place),
    };
    let message = format!("MAINPID={}\nREADY=1", std::process::id());
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!("NOTIFY_SOCKET={place}: {error}");
    }
}
