//! Connecting to the first address of a host that accepts (RFC 8305).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Time after which the next address is tried concurrently (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Reorders addresses so that the address families alternate, beginning with the family of the
/// first address (RFC 8305, section 4).
pub fn interleave(addresses: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut a, mut b): (VecDeque<_>, VecDeque<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut mixed = VecDeque::with_capacity(a.len() + b.len());
    while let Some(address) = a.pop_front() {
        mixed.push_back(address);
        mixed.extend(b.pop_front());
    }
    mixed.append(&mut b);
    mixed
}

/// Connects to the first address that accepts the connection. Tries the next address if an attempt
/// fails or takes too long.
///
/// # Errors
/// If no address accepts a connection: the first failed address, and its error.
pub async fn first_of(
    mut addresses: VecDeque<SocketAddr>,
) -> Result<TcpStream, (SocketAddr, io::Error)> {
    let connect = |address: SocketAddr| async move {
        let stream = TcpStream::connect(address).await;
        stream.map_err(|error| (address, error))
    };
    let mut attempts = FuturesUnordered::new();
    let mut failure = None;
    loop {
        if let Some(address) = addresses.pop_front() {
            attempts.push(connect(address));
        }
        let more = !addresses.is_empty();
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(why)) => failure = failure.or(Some(why)),
                None if more => {}
                None => return Err(failure.unwrap_or_else(nowhere)),
            },
            () = sleep(STAGGER), if more => {}
        }
    }
}

fn nowhere() -> (SocketAddr, io::Error) {
    let none = SocketAddr::from(([0, 0, 0, 0], 0));
    (none, io::ErrorKind::AddrNotAvailable.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let addresses = ["[::1]:1", "[::2]:1", "1.1.1.1:1"].map(|text| text.parse().unwrap());
        let mixed: Vec<String> = interleave(addresses.to_vec())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(mixed, ["[::1]:1", "1.1.1.1:1", "[::2]:1"]);
    }

    #[tokio::test]
    async fn an_address_that_refuses_does_not_keep_from_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let refusing = closed.local_addr().unwrap();
        drop(closed);
        let connected = first_of([refusing, open].into()).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), open);
        let (address, _) = first_of([refusing].into()).await.unwrap_err();
        assert_eq!(address, refusing);
    }
}
