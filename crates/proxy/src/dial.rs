//! TCP connections to servers and upstream proxies.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use lucarne_mint::store::Host;
use lucarne_net::{first_of, interleave};
use parking_lot::RwLock;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::failure::{Failure, Refusal, Step};
use crate::rules::Rules;
use crate::target::Target;

/// Connects to addresses that the rules permit.
pub(crate) struct Dialer {
    rules: Arc<ArcSwap<Rules>>,
    /// Addresses of this proxy's own listeners. The proxy must not connect to itself.
    own: RwLock<Vec<SocketAddr>>,
    patience: Duration,
    idle: Duration,
}

impl Dialer {
    pub(crate) fn new(rules: Arc<ArcSwap<Rules>>, patience: Duration, idle: Duration) -> Self {
        Dialer {
            rules,
            own: RwLock::default(),
            patience,
            idle,
        }
    }

    /// Adds an address of this proxy. The proxy never connects to this address.
    pub(crate) fn add_own(&self, address: SocketAddr) {
        self.own.write().push(address);
    }

    /// Connects to the target. The rules apply to the address of the connection itself, so a name
    /// server cannot bypass them.
    pub(crate) async fn connect(&self, target: &Target) -> Result<TcpStream, Failure> {
        let addresses = self.addresses(target, |ip| self.permit(ip, target.port));
        self.first(addresses.await?).await
    }

    /// Connects to an upstream proxy. The rules do not apply: the configuration names the address,
    /// which must only differ from the addresses of this proxy.
    pub(crate) async fn connect_to_proxy(&self, proxy: &Target) -> Result<TcpStream, Failure> {
        let addresses = self.addresses(proxy, |ip| self.not_own(ip, proxy.port));
        self.first(addresses.await?).await
    }

    async fn first(&self, addresses: VecDeque<SocketAddr>) -> Result<TcpStream, Failure> {
        let connecting = timeout(self.patience, first_of(addresses));
        let stream = match connecting.await {
            Ok(connected) => connected.map_err(|(address, error)| {
                Failure::Connect(format!(
                    "Connecting to {address} failed: {}.",
                    plain(&error)
                ))
            })?,
            Err(_) => return Err(Failure::Timeout(Step::Connect, self.patience)),
        };
        prepare(&stream, self.idle);
        Ok(stream)
    }

    /// Checks whether the proxy may connect to `ip` and `port`, regardless of the requested name.
    pub(crate) fn permit(&self, ip: IpAddr, port: u16) -> Result<(), Failure> {
        self.not_own(ip, port)?;
        let rules = self.rules.load();
        let host = Host::from(ip);
        let permitted = rules
            .not_denied(&Target { host, port })
            .and_then(|()| rules.permit_address(ip));
        permitted.map_err(Failure::Refused)
    }

    /// Checks whether the rules permit a request for `target` through an upstream proxy. The
    /// upstream proxy resolves names. Therefore this function checks only addresses, `localhost`
    /// and its subdomains (RFC 6761, section 6.3), and names that many resolvers read as IPv4
    /// addresses.
    pub(crate) fn permit_elsewhere(&self, target: &Target) -> Result<(), Failure> {
        let name = target.host.as_str();
        let ip = match target.host.ip() {
            None if name == "localhost" || name.ends_with(".localhost") => {
                Some(Ipv4Addr::LOCALHOST.into())
            }
            // `0x7f000001` is a name here, and an address for many resolvers.
            None => match url::Host::parse(name) {
                Ok(url::Host::Ipv4(ip)) => Some(ip.into()),
                _ => None,
            },
            ip => ip,
        };
        ip.map_or(Ok(()), |ip| self.permit(ip, target.port))
    }

    fn not_own(&self, ip: IpAddr, port: u16) -> Result<(), Failure> {
        if self.is_own(ip, port) {
            Err(Failure::Refused(Refusal::Loop))
        } else {
            Ok(())
        }
    }

    /// Resolves `target` and returns the addresses that `permit` accepts.
    async fn addresses(
        &self,
        target: &Target,
        permit: impl Fn(IpAddr) -> Result<(), Failure>,
    ) -> Result<VecDeque<SocketAddr>, Failure> {
        let found: Vec<SocketAddr> = match target.host.ip() {
            Some(ip) => vec![SocketAddr::new(ip, target.port)],
            None => self.resolve(target).await?,
        };
        let mut refused = None;
        let mut permitted = Vec::with_capacity(found.len());
        for address in found {
            match permit(address.ip()) {
                Ok(()) => permitted.push(address),
                Err(failure) => refused = refused.or(Some(failure)),
            }
        }
        match (permitted.is_empty(), refused) {
            (false, _) => Ok(interleave(permitted)),
            (true, Some(failure)) => Err(failure),
            (true, None) => Err(Failure::Resolve(
                "The name resolves to no address.".to_owned(),
            )),
        }
    }

    async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Failure> {
        let rules = self.rules.load_full();
        let known = rules
            .resolve
            .iter()
            .find(|(hosts, _)| hosts.matches(target));
        if let Some((_, ip)) = known {
            return Ok(vec![SocketAddr::new(*ip, target.port)]);
        }
        let looking = lookup_host((target.host.as_str(), target.port));
        match timeout(self.patience, looking).await {
            Ok(Ok(found)) => Ok(found.collect()),
            Ok(Err(error)) => Err(Failure::Resolve(format!(
                "The name {} cannot be resolved: {}.",
                target.host,
                plain(&error)
            ))),
            Err(_) => Err(Failure::Timeout(Step::Resolve, self.patience)),
        }
    }

    /// Returns whether a connection to this address reaches this proxy. A listener on the
    /// unspecified address listens on every address of this machine. An address belongs to this
    /// machine if it can be bound.
    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        let ip = ip.to_canonical();
        self.own.read().iter().any(|own| {
            let at = own.ip().to_canonical();
            let here = || ip.is_loopback() || ip.is_unspecified() || is_local(ip);
            own.port() == port && (at == ip || ip.is_unspecified() || at.is_unspecified() && here())
        })
    }
}

fn is_local(ip: IpAddr) -> bool {
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

/// Sends small messages at once, and lets the kernel close a connection whose peer acknowledges
/// nothing for `idle`.
pub(crate) fn prepare(stream: &TcpStream, idle: Duration) {
    // A failure of these options does not justify losing the connection.
    let _ = stream.set_nodelay(true);
    let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(idle));
}

/// Formats a system error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text
        .strip_prefix("failed to lookup address information: ")
        .unwrap_or(&text);
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialer(rules: Rules) -> Dialer {
        let rules = Arc::new(ArcSwap::from_pointee(rules));
        Dialer::new(rules, Duration::from_secs(5), Duration::from_secs(5))
    }

    #[tokio::test]
    async fn the_address_counts_not_the_name() {
        let target = Target::parse("localhost:443", 443).unwrap();
        let refused = dialer(Rules::default()).connect(&target).await.unwrap_err();
        assert!(
            matches!(refused, Failure::Refused(Refusal::Address(ip, _)) if ip.is_loopback()),
            "{refused}"
        );
    }

    /// A name that resolves to a denied address is refused, for example 127.0.0.1.nip.io.
    #[tokio::test]
    async fn denied_addresses_are_denied_by_every_name() {
        for denied in [
            "127.0.0.0/8",
            "::ffff:127.0.0.0/104",
            "127.*",
            "127.0.0.1:443",
        ] {
            let rules = Rules {
                private: true,
                deny: vec![denied.parse().unwrap()],
                resolve: vec![("*.test".parse().unwrap(), Ipv4Addr::LOCALHOST.into())],
                ..Rules::default()
            };
            let dialer = dialer(rules);
            for target in ["www.test:443", "127.0.0.1:443", "[::ffff:127.0.0.1]:443"] {
                let target = Target::parse(target, 443).unwrap();
                let refused = dialer.connect(&target).await.unwrap_err();
                assert_eq!(refused.status(), 403, "{denied} {target}: {refused}");
                assert!(refused.to_string().contains(denied), "{refused}");
            }
        }
    }

    #[tokio::test]
    async fn the_proxy_does_not_connect_to_itself() {
        let rules = Rules {
            private: true,
            ..Rules::default()
        };
        let dialer = dialer(rules);
        dialer.add_own("0.0.0.0:3128".parse().unwrap());
        dialer.add_own("127.0.0.1:3129".parse().unwrap());
        for own in [
            "127.0.0.1:3128",
            "127.3.2.1:3128",
            "localhost:3128",
            "127.0.0.1:3129",
            "0.0.0.0:3129",
        ] {
            let target = Target::parse(own, 443).unwrap();
            let refused = dialer.connect(&target).await.unwrap_err();
            assert!(
                matches!(refused, Failure::Refused(Refusal::Loop)),
                "{own}: {refused}"
            );
        }
        assert!(dialer.permit("127.0.0.1".parse().unwrap(), 3130).is_ok());
        assert!(dialer.permit("127.0.0.2".parse().unwrap(), 3129).is_ok());
    }
}
