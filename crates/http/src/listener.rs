//! Listening sockets and the connections that they accept.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::net::sockopt::{set_ipv6_v6only, socket_acceptconn};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

use crate::budget::Exhausted;
use crate::connection::{OpenConnection, Shared, serve as serve_connection};
use crate::farewell::{TOO_MANY, TOO_MANY_EACH, close};
use crate::site::EndpointSet;
use crate::tls::Tls;

/// A listening socket, with or without TLS.
pub struct Listener {
    socket: TcpListener,
    pub(crate) tls: Option<Arc<Tls>>,
    endpoints: EndpointSet,
}

/// The reasons why the server cannot listen on an address.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process uses the address.
    #[error(
        "{address} is in use by another process: stop that process, or configure another \
             address"
    )]
    Taken {
        /// The address as configured.
        address: String,
    },
    /// The address is invalid, does not belong to this machine, or is not permitted for this user.
    #[error("cannot listen on {address}: {error}")]
    Unusable {
        /// The address as configured.
        address: String,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// Number of connections that the kernel queues while the server is busy.
const BACKLOG: u32 = 4096;

impl Listener {
    /// Listens on `host:port`. `:port` means every address; port 0 means any free port.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn bind(address: &str) -> Result<Self, BindError> {
        let socket = bind(address).await.map_err(|error| {
            let address = address.to_owned();
            match error.kind() {
                io::ErrorKind::AddrInUse => BindError::Taken { address },
                _ => BindError::Unusable { address, error },
            }
        })?;
        Ok(Listener {
            socket,
            tls: None,
            endpoints: EndpointSet::default(),
        })
    }

    /// Uses a socket that systemd, or the previous process of a takeover, passed to this process.
    ///
    /// # Errors
    /// If the file descriptor is not a listening TCP socket.
    pub fn from_socket(socket: OwnedFd) -> io::Result<Self> {
        if !socket_acceptconn(&socket)? {
            return Err(io::Error::other("the socket does not listen"));
        }
        let socket = std::net::TcpListener::from(socket);
        socket.local_addr()?;
        socket.set_nonblocking(true)?;
        Ok(Listener {
            socket: TcpListener::from_std(socket)?,
            tls: None,
            endpoints: EndpointSet::default(),
        })
    }

    /// Returns a duplicate of the socket. Connections wait in the socket's queue while any process
    /// has the socket open, even if this process accepts none of the connections.
    ///
    /// # Errors
    /// If the process has reached its limit of open files.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Enables TLS with this certificate. Clients choose between HTTP/2 and HTTP/1.1.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<Tls>) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Serves only this part of the site. Default: everything.
    #[must_use]
    pub fn with_endpoints(mut self, endpoints: EndpointSet) -> Self {
        self.endpoints = endpoints;
        self
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// If the system does not report the address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

async fn bind(address: &str) -> io::Result<TcpListener> {
    let everywhere = address.strip_prefix(':').map(|port| format!("[::]:{port}"));
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no such host");
    for address in lookup_host(everywhere.as_deref().unwrap_or(address)).await? {
        match listen(address, everywhere.is_some()) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen(address: SocketAddr, everywhere: bool) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Allows a restart immediately after a stop. Two processes still cannot listen at the same
    // time.
    socket.set_reuseaddr(true)?;
    if everywhere && address.is_ipv6() {
        // Systems with `net.ipv6.bindv6only=1` would not accept IPv4.
        set_ipv6_v6only(&socket, false)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until shutdown.
pub(crate) async fn accept(listener: Listener, shared: Arc<Shared>) {
    let stop = shared.clone();
    let accepting = async {
        loop {
            let (stream, peer) = lucarne_net::accept(&listener.socket).await;
            take(stream, peer.ip(), &listener, &shared);
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop.closing.raised() => {}
    }
}

fn take(stream: TcpStream, peer: IpAddr, listener: &Listener, shared: &Arc<Shared>) {
    let open = match OpenConnection::enter(shared, peer) {
        Ok(open) => open,
        Err(full) => return refuse(stream, full, listener, shared),
    };
    // Responses are written in one piece: waiting for more data gains nothing.
    let _ = stream.set_nodelay(true);
    let tls = listener.tls.as_ref().map(|tls| tls.acceptor());
    tokio::spawn(serve_connection(stream, tls, listener.endpoints, open));
}

/// Closes a connection for which there is no place. Sends a short explanation, unless there are too
/// many explanations already.
fn refuse(stream: TcpStream, full: Exhausted, listener: &Listener, shared: &Shared) {
    let (reason, response) = match full {
        Exhausted::Client => ("too many of a client", TOO_MANY_EACH),
        Exhausted::All => ("too many", TOO_MANY),
    };
    shared.site.metrics.cut(reason);
    if listener.tls.is_none() && shared.explaining.count() < EXPLAINED {
        let explaining = shared.explaining.enter();
        tokio::spawn(async move {
            close(stream, response).await;
            drop(explaining);
        });
    }
}

/// Maximum number of excess connections that get an explanation. Other excess connections are
/// closed without a response.
const EXPLAINED: usize = 64;

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::ipv6_v6only;

    use super::*;

    /// The default of the system may be that sockets for IPv6 accept only IPv6.
    #[tokio::test]
    async fn a_port_alone_means_both_families() {
        let socket = bind(":0").await.unwrap();
        if socket.local_addr().unwrap().is_ipv6() {
            assert!(!ipv6_v6only(&socket).unwrap());
        } else {
            println!("skipped: this machine has no IPv6");
        }
        let explicit = TcpSocket::new_v6();
        let Ok(explicit) = explicit else { return };
        let default = ipv6_v6only(&explicit).unwrap();
        if let Ok(socket) = bind("[::]:0").await {
            assert_eq!(ipv6_v6only(&socket).unwrap(), default);
        }
    }
}
