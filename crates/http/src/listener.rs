//! Accepting connections, and letting go of them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::net::sockopt::socket_acceptconn;
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

use crate::connection::{OpenConnection, Shared, TOO_MANY, close, serve as serve_connection};
use crate::site::EndpointSet;
use crate::tls::Tls;

/// A socket that listens, with or without TLS.
pub struct Listener {
    socket: TcpListener,
    pub(crate) tls: Option<Arc<Tls>>,
    endpoints: EndpointSet,
}

/// The reasons why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has it.
    #[error("{address} is taken by another process: stop that one, or listen elsewhere")]
    Taken {
        /// The address as configured.
        address: String,
    },
    /// It is no address, or none of this machine, or not for this user.
    #[error("cannot listen on {address}: {error}")]
    Unusable {
        /// The address as configured.
        address: String,
        /// The system's error.
        error: io::Error,
    },
}

/// Connections that the kernel keeps while we are busy.
const BACKLOG: u32 = 4096;

impl Listener {
    /// Listens on `host:port` (`:port` for every address); port 0 for any.
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

    /// Listens with a socket that this process was given: by systemd, or by the process
    /// that it takes over from.
    ///
    /// # Errors
    /// If it is no TCP socket that listens.
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

    /// Returns the socket once more: what arrives there waits for as long as anybody has
    /// it, whether or not this process accepts it.
    ///
    /// # Errors
    /// If the process may open no more files.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Speaks TLS with this certificate, HTTP/2 or HTTP/1.1 as clients like.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<Tls>) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Serves this part of the site. Default: everything.
    #[must_use]
    pub fn with_endpoints(mut self, endpoints: EndpointSet) -> Self {
        self.endpoints = endpoints;
        self
    }

    /// Returns the address it listens on.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

async fn bind(address: &str) -> io::Result<TcpListener> {
    let everywhere = address.strip_prefix(':').map(|port| format!("[::]:{port}"));
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no such host");
    for address in lookup_host(everywhere.as_deref().unwrap_or(address)).await? {
        match listen(address) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Start again at once after a stop; two at a time still cannot listen.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until the end is near.
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
    let most = shared.site.limits.connections;
    let open = shared.open.count();
    if open >= most {
        shared.site.metrics.cut("too many");
        // A word of explanation, as long as explaining is not the problem.
        if listener.tls.is_none() && open < most + EXPLAINED {
            let open = OpenConnection::new(shared, peer);
            tokio::spawn(async move {
                close(stream, TOO_MANY).await;
                drop(open);
            });
        }
        return;
    }
    // Answers are written in one piece: waiting for more gains nothing.
    let _ = stream.set_nodelay(true);
    let tls = listener.tls.as_ref().map(|tls| tls.acceptor());
    tokio::spawn(serve_connection(
        stream,
        tls,
        listener.endpoints,
        OpenConnection::new(shared, peer),
    ));
}

/// Connections beyond the limit that are told so; the others are just closed.
const EXPLAINED: usize = 64;
