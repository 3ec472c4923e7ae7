//! Rules: permitted targets, and the action for each.

use std::net::IpAddr;
use std::time::Duration;

use lucarne_net::{Network, special};

use crate::failure::Refusal;
use crate::pattern::HostPattern;
use crate::ports::Ports;
use crate::target::Target;

/// Actions on TLS that a client sends after CONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Responds in place of the server, with a certificate of the proxy.
    #[default]
    Intercept,
    /// Forwards the bytes unchanged.
    Tunnel,
    /// Intercepts, and forwards the bytes of clients that reject two certificates of the proxy.
    Learn,
}

/// An action for some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Hosts that the rule applies to.
    pub hosts: HostPattern,
    /// Action for these hosts.
    pub action: Action,
}

/// Rules for targets: permitted hosts, ports and addresses, and the action on TLS.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Rules of interception; the first match decides.
    pub rules: Vec<Rule>,
    /// Action if no rule matches.
    pub default: Action,
    /// Time for which [`Action::Learn`] forwards the bytes of a client to a host.
    pub learn_for: Duration,
    /// Hosts that clients may connect to; empty allows all.
    pub allow: Vec<HostPattern>,
    /// Hosts that clients may not connect to; takes precedence over `allow`.
    pub deny: Vec<HostPattern>,
    /// Ports that clients may connect to.
    pub ports: Vec<Ports>,
    /// Whether clients may connect to addresses outside the public internet.
    pub private: bool,
    /// Networks outside the public internet that clients may connect to even if `private` is
    /// `false`.
    pub networks: Vec<Network>,
    /// Fixed addresses of hosts, instead of DNS; the first match decides.
    pub resolve: Vec<(HostPattern, IpAddr)>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            rules: Vec::new(),
            default: Action::default(),
            learn_for: Duration::from_secs(3600),
            allow: Vec::new(),
            deny: Vec::new(),
            ports: Ports::usual(),
            private: false,
            networks: Vec::new(),
            resolve: Vec::new(),
        }
    }
}

impl Rules {
    /// Returns the action for `target`. `also` is a second name of the target: the name in the
    /// ClientHello if CONNECT named an address.
    pub fn action(&self, target: &Target, also: Option<&Target>) -> Action {
        let applies = |rule: &&Rule| {
            rule.hosts.matches(target) || also.is_some_and(|also| rule.hosts.matches(also))
        };
        let rule = self.rules.iter().find(applies);
        rule.map_or(self.default, |rule| rule.action)
    }

    /// Returns whether the action for an address can depend on the name in the ClientHello.
    pub fn need_name(&self, target: &Target) -> bool {
        target.host.ip().is_some() && (!self.rules.is_empty() || self.default != Action::Tunnel)
    }

    /// Checks whether the lists permit `target`.
    ///
    /// # Errors
    /// [`Refusal::Denied`] or [`Refusal::NotAllowed`].
    pub fn permit(&self, target: &Target) -> Result<(), Refusal> {
        self.not_denied(target)?;
        if self.allow.is_empty() || self.allow.iter().any(|pattern| pattern.matches(target)) {
            return Ok(());
        }
        Err(Refusal::NotAllowed(target.host.clone()))
    }

    /// Checks that the deny list does not match `target`.
    ///
    /// # Errors
    /// [`Refusal::Denied`] with the pattern that matches.
    pub fn not_denied(&self, target: &Target) -> Result<(), Refusal> {
        match self.deny.iter().find(|pattern| pattern.matches(target)) {
            Some(pattern) => Err(Refusal::Denied(target.host.clone(), pattern.clone())),
            None => Ok(()),
        }
    }

    /// Returns whether there is an allow list or a deny list.
    pub fn judge(&self) -> bool {
        !self.allow.is_empty() || !self.deny.is_empty()
    }

    /// Checks whether clients may connect to this port.
    ///
    /// # Errors
    /// If the port is not allowed.
    pub fn permit_port(&self, port: u16) -> Result<(), Refusal> {
        if self.ports.iter().any(|ports| ports.contains(port)) {
            Ok(())
        } else {
            Err(Refusal::Port(port))
        }
    }

    /// Checks whether clients may connect to `ip`.
    ///
    /// # Errors
    /// If the address is outside the public internet and not allowed.
    pub fn permit_address(&self, ip: IpAddr) -> Result<(), Refusal> {
        match special(ip) {
            Some(kind) if !self.private && !self.networks.iter().any(|n| n.contains(ip)) => {
                Err(Refusal::Address(ip, kind))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        Target::parse(text, 443).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rule = |hosts: &str, action| Rule {
            hosts: hosts.parse().unwrap(),
            action,
        };
        let rules = Rules {
            rules: vec![
                rule("api.bank.example", Action::Intercept),
                rule("*.bank.example", Action::Tunnel),
            ],
            ..Rules::default()
        };
        let action = |host: &str| rules.action(&target(host), None);
        assert_eq!(action("api.bank.example"), Action::Intercept);
        assert_eq!(action("www.bank.example"), Action::Tunnel);
        assert_eq!(action("example.com"), Action::Intercept);
        let named = rules.action(&target("192.0.2.1"), Some(&target("www.bank.example")));
        assert_eq!(named, Action::Tunnel);
    }

    #[test]
    fn deny_counts_before_allow() {
        let rules = Rules {
            allow: vec!["*.example".parse().unwrap()],
            deny: vec!["bad.example".parse().unwrap()],
            ..Rules::default()
        };
        assert!(rules.permit(&target("a.example")).is_ok());
        let denied = rules.permit(&target("bad.example"));
        assert!(matches!(denied, Err(Refusal::Denied(..))));
        let other = rules.permit(&target("example.com"));
        assert!(matches!(other, Err(Refusal::NotAllowed(_))));
    }

    #[test]
    fn inner_addresses_are_refused_unless_allowed() {
        let inner = "10.1.2.3".parse().unwrap();
        let mut rules = Rules::default();
        assert!(rules.permit_address(inner).is_err());
        rules.networks = vec!["10.1.0.0/16".parse().unwrap()];
        assert!(rules.permit_address(inner).is_ok());
        assert!(rules.permit_address("10.2.0.1".parse().unwrap()).is_err());
        rules.private = true;
        assert!(rules.permit_address("127.0.0.1".parse().unwrap()).is_ok());
    }
}
