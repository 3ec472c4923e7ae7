//! From a target to a connection.

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

/// Connects where the rules let it.
pub(crate) struct Dialer {
    rules: Arc<ArcSwap<Rules>>,
    /// The addresses this proxy listens on: not to be connected to.
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

    /// Never connects to `address`, which is the proxy's.
    pub(crate) fn add_own(&self, address: SocketAddr) {
        self.own.write().push(address);
    }

    /// Connects to the target. What is checked is the address that is then
    /// connected to: no answer of a name server gets around that.
    pub(crate) async fn connect(&self, target: &Target) -> Result<TcpStream, Failure> {
        let addresses = self.addresses(target, |ip| self.permit(ip, target.port));
        self.first(addresses.await?).await
    }

    /// Connects to an upstream proxy. Whoever configured it has allowed its
    /// address, wherever that is, unless it is this proxy's own.
    pub(crate) async fn connect_to_proxy(&self, proxy: &Target) -> Result<TcpStream, Failure> {
        let addresses = self.addresses(proxy, |ip| self.not_own(ip, proxy.port));
        self.first(addresses.await?).await
    }

    async fn first(&self, addresses: VecDeque<SocketAddr>) -> Result<TcpStream, Failure> {
        let connecting = timeout(self.patience, first_of(addresses));
        let stream = match connecting.await {
            Ok(connected) => connected.map_err(|(address, error)| {
                Failure::Connect(format!("{address} says: {}.", plain(&error)))
            })?,
            Err(_) => return Err(Failure::Timeout(Step::Connect, self.patience)),
        };
        prepare(&stream, self.idle);
        Ok(stream)
    }

    /// Checks whether the rules let `ip` be connected to, at this port, by whatever
    /// name it was asked for.
    pub(crate) fn permit(&self, ip: IpAddr, port: u16) -> Result<(), Failure> {
        self.not_own(ip, port)?;
        let rules = self.rules.load();
        let host = Host::from(ip);
        let permitted = rules
            .not_denied(&Target { host, port })
            .and_then(|()| rules.permit_address(ip));
        permitted.map_err(Failure::Refused)
    }

    /// Checks whether the rules let `target` be asked of another proxy, as far as can
    /// be told here: names are resolved there, except those that mean the
    /// machine that resolves them (RFC 6761 6.3), and those that are numbers.
    pub(crate) fn permit_elsewhere(&self, target: &Target) -> Result<(), Failure> {
        let name = target.host.as_str();
        let ip = match target.host.ip() {
            None if name == "localhost" || name.ends_with(".localhost") => {
                Some(Ipv4Addr::LOCALHOST.into())
            }
            // `0x7f000001`: a name here, an address to many a resolver.
            None => match url::Host::parse(name) {
                Ok(url::Host::Ipv4(ip)) => Some(ip.into()),
                _ => None,
            },
            ip => ip,
        };
        ip.map_or(Ok(()), |ip| self.permit(ip, target.port))
    }

    fn not_own(&self, ip: IpAddr, port: u16) -> Result<(), Failure> {
        match self.is_own(ip, port) {
            true => Err(Failure::Refused(Refusal::Loop)),
            false => Ok(()),
        }
    }

    /// The addresses of `target` that `permit` lets be connected to.
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
            (true, None) => Err(Failure::Resolve("It resolves to no address.".to_owned())),
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

    /// Returns whether somebody who connects there gets this proxy. On a socket that
    /// takes connections to every address, that is every address of this
    /// machine: those that can be bound.
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

/// Small messages go out at once, and a peer that takes nothing for too long
/// is given up by the kernel.
pub(crate) fn prepare(stream: &TcpStream, idle: Duration) {
    // Neither is worth losing the connection for.
    let _ = stream.set_nodelay(true);
    let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(idle));
}

/// The system's error, without its number.
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

    /// Whatever a name server says: 127.0.0.1.nip.io is 127.0.0.1.
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
