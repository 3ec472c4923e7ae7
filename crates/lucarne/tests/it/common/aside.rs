//! A server on its own thread.

use std::net::SocketAddr;
use std::thread;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// The server. It stops when this value is dropped.
pub(crate) struct Aside {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Aside {
    /// Calls `connection` for every accepted connection. A connection that `connection` closes
    /// arrives as a reset, which matters only if a request is in flight.
    pub(crate) fn serve<F>(connection: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => (),
                    () = accept(TcpListener::from_std(socket).unwrap(), connection) => (),
                }
            });
        });
        Aside {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept<F>(listener: TcpListener, connection: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let _ = stream.set_zero_linger();
        tokio::spawn(connection(stream));
    }
}
