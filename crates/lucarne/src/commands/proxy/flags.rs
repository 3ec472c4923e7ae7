//! Flags of `lucarne proxy`. The flags override the file.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use lucarne_ct::Fingerprint;
use lucarne_mint::KeyType;
use lucarne_proxy::{HostPattern, Network, Ports};
use lucarne_settings::Report;
use url::Url;

use super::config::{AccessLogFormat, Config, LeafKeys, Pair, StoreKind, Through, put};
use super::keys::top::KEYS;
use crate::commands::{FlagError, duration};
use crate::config::Listen;

/// Settings that need no configuration file.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Address for clients; may be repeated [default: 127.0.0.1:3128]
    #[arg(short, long, value_name = "HOST:PORT", value_parser = crate::config::listen)]
    pub listen: Vec<Listen>,

    /// Address of the status page, its JSON and /metrics [default: none]
    #[arg(long, value_name = "HOST:PORT", value_parser = crate::config::listen)]
    pub admin: Option<Listen>,

    /// File of finished requests, tunnels and failed handshakes [default: none]
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,

    /// Format of the access log [default: combined]
    #[arg(long, value_name = "FORMAT")]
    pub access_log_format: Option<AccessLogFormat>,

    /// Record requests and responses in this HAR file [default: none]
    #[arg(long, value_name = "FILE")]
    pub har: Option<PathBuf>,

    /// Print lines instead of the live view
    #[arg(long)]
    pub no_ui: bool,

    /// Directory of the CA, created at the first start [default: lucarne-ca]
    #[arg(
        long,
        alias = "ca-directory",
        value_name = "DIR",
        help_heading = "Certificates"
    )]
    pub ca: Option<PathBuf>,

    /// Key type of minted certificates: p256, p384, rsa2048, ed25519, … [default: p256]
    #[arg(long, value_name = "KIND", help_heading = "Certificates")]
    pub key_type: Option<KeyType>,

    /// Use one key for each certificate (per-certificate), or one for all (shared) [default: shared
    /// for RSA keys, else per-certificate]
    #[arg(long, value_name = "WHOSE", help_heading = "Certificates")]
    pub leaf_key: Option<LeafKeys>,

    /// Validity of minted certificates [default: 720h]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Certificates")]
    pub lifetime: Option<Duration>,

    /// Copy names, validity and key type of the server's certificate into minted certificates
    #[arg(long, help_heading = "Certificates")]
    pub resemble: bool,

    /// Store of certificates: memory, disk, layered or none [default: memory; with
    /// --store-directory: layered]
    #[arg(long, value_name = "KIND", help_heading = "Certificates")]
    pub store: Option<StoreKind>,

    /// Directory of the stores `disk` and `layered`
    #[arg(long, value_name = "DIR", help_heading = "Certificates")]
    pub store_directory: Option<PathBuf>,

    /// Memory for certificates; a number without a unit is in MiB [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = store_memory, help_heading = "Certificates")]
    pub store_memory: Option<u64>,

    /// Certificate (PEM) with its key, to serve to clients instead of a minted one, for the hosts
    /// that it covers. May be repeated
    #[arg(
        long,
        value_name = "[HOST=]CERTIFICATE[,KEY]",
        value_parser = Pair::parse,
        help_heading = "Certificates"
    )]
    pub certificate: Vec<Pair>,

    /// Intercept TLS to these hosts, as an exception from --tunnel or --default; may be repeated
    #[arg(long, value_name = "HOST", help_heading = "Rules")]
    pub intercept: Vec<HostPattern>,

    /// Pass TLS to these hosts through unchanged; may be repeated
    #[arg(long, value_name = "HOST", help_heading = "Rules")]
    pub tunnel: Vec<HostPattern>,

    /// Action for hosts that no rule matches: intercept, tunnel, or learn (tunnel hosts for clients
    /// that reject the interception) [default: intercept]
    #[arg(long, value_name = "ACTION", value_parser = default_action, help_heading = "Rules")]
    pub default: Option<lucarne_proxy::Action>,

    /// Time for which `learn` tunnels a host for a client [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Rules")]
    pub learn_for: Option<Duration>,

    /// Allow only these hosts; may be repeated
    #[arg(long, value_name = "HOST", help_heading = "Rules")]
    pub allow: Vec<HostPattern>,

    /// Refuse these hosts; may be repeated
    #[arg(long, value_name = "HOST", help_heading = "Rules")]
    pub deny: Vec<HostPattern>,

    /// Allow these ports instead of 80, 443 and 1024-65535; may be repeated
    #[arg(long, value_name = "PORTS", help_heading = "Rules")]
    pub allow_port: Vec<Ports>,

    /// Allow these internal addresses, such as 10.0.0.0/8; may be repeated
    #[arg(long, value_name = "BLOCK", help_heading = "Rules")]
    pub allow_network: Vec<Network>,

    /// Allow all loopback, private and link-local addresses
    #[arg(long, action = ArgAction::SetTrue, help_heading = "Rules")]
    pub allow_private: bool,

    /// Use this address for hosts instead of DNS: '*.test=127.0.0.1'; may be repeated
    #[arg(long, value_name = "HOST=ADDRESS", value_parser = super::config::place, help_heading = "Rules")]
    pub resolve: Vec<(HostPattern, std::net::IpAddr)>,

    /// User of the proxy; may be repeated. Other users of the machine can see the value in
    /// the process list
    #[arg(long, value_name = "NAME:PASSWORD", help_heading = "Rules")]
    pub user: Vec<String>,

    /// File of users in the format of htpasswd
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    pub users: Option<PathBuf>,

    /// PEM file of CAs to trust for servers, in addition to the system's; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Servers")]
    pub upstream_ca: Vec<PathBuf>,

    /// Upstream proxy for all hosts or for some hosts ('direct' for none). May be repeated; the
    /// first match applies
    #[arg(long, value_name = "[HOST=]URL", help_heading = "Servers")]
    pub upstream_proxy: Vec<String>,

    /// Client certificate (PEM) and key for servers that request one; may be repeated
    #[arg(
        long,
        value_name = "[HOST=]CERTIFICATE[,KEY]",
        value_parser = Pair::parse,
        help_heading = "Servers"
    )]
    pub upstream_certificate: Vec<Pair>,

    /// Accept any certificate of any server
    #[arg(long, help_heading = "Servers")]
    pub insecure: bool,

    /// Accept any certificate of this host; may be repeated
    #[arg(long, value_name = "HOST", value_parser = super::config::certified, help_heading = "Servers")]
    pub insecure_host: Vec<HostPattern>,

    /// Accept only this certificate of a host, given by its SHA-256 in hexadecimal. May be repeated
    #[arg(
        long,
        value_name = "HOST=SHA256",
        value_parser = super::config::fingerprint,
        help_heading = "Servers"
    )]
    pub upstream_fingerprint: Vec<(HostPattern, Fingerprint)>,

    /// Log list (version 3 JSON) to verify the SCTs of servers
    #[arg(long, value_name = "FILE|URL", help_heading = "Observation")]
    pub log_list: Option<String>,

    /// Submission prefix of a log for chains that no log contains. May be repeated; a chain goes to
    /// the log whose temporal interval contains its expiry
    #[arg(long, value_name = "URL", help_heading = "Observation")]
    pub submit_to: Vec<Url>,

    /// Public key (PEM) of a log in --submit-to. May be repeated, in the order of the logs; logs
    /// without a key, which come last, must be in the log list
    #[arg(long, value_name = "FILE", help_heading = "Observation")]
    pub submit_key: Vec<PathBuf>,
}

impl Flags {
    /// Applies the flags to the configuration of the file. Adds their problems to `report`.
    pub(super) fn apply(&self, config: &mut Config, report: &mut Report) {
        put_list(&mut config.listen, &self.listen);
        put(&mut config.admin, self.admin.clone().map(Some));
        put(&mut config.access_log, self.access_log.clone().map(Some));
        put(&mut config.access_log_format, self.access_log_format);
        put(&mut config.har, self.har.clone().map(Some));
        put(&mut config.ca, self.ca.clone());
        put(&mut config.key_type, self.key_type);
        put(&mut config.leaf_keys, self.leaf_key.map(Some));
        put(&mut config.lifetime, self.lifetime);
        config.resemble |= self.resemble;
        put(&mut config.store, self.store.map(Some));
        put(
            &mut config.store_directory,
            self.store_directory.clone().map(Some),
        );
        put(&mut config.store_memory, self.store_memory);
        self.apply_rules(config);
        put_list(&mut config.users.given, &self.user);
        put(&mut config.users.file, self.users.clone().map(Some));
        put_list(&mut config.upstream_ca, &self.upstream_ca);
        config.insecure |= self.insecure;
        put_list(&mut config.insecure_hosts, &self.insecure_host);
        put_list(&mut config.fingerprints, &self.upstream_fingerprint);
        config.through.splice(0..0, self.through(report));
        config
            .shown
            .splice(0..0, self.upstream_certificate.iter().cloned());
        config.own.splice(0..0, self.certificate.iter().cloned());
        put(&mut config.log_list, self.log_list.clone().map(Some));
        put_list(&mut config.submit_to, &self.submit_to);
        put_list(&mut config.submit_keys, &self.submit_key);
    }

    /// Parses the upstream proxies. Unlike the errors of clap, these errors do not contain the URL,
    /// because the URL may contain a password.
    fn through(&self, report: &mut Report) -> Vec<Through> {
        let read = |text: &String| {
            let given = Through::parse(text);
            let parsed = given.map_err(|why| {
                report.problem(None, "--upstream-proxy", format!("the value {why}"));
            });
            parsed.ok()
        };
        self.upstream_proxy.iter().filter_map(read).collect()
    }

    fn apply_rules(&self, config: &mut Config) {
        use lucarne_proxy::{Action, Rule};
        let rules = &mut config.rules;
        let rule = |hosts: &HostPattern, action| Rule {
            hosts: hosts.clone(),
            action,
        };
        let intercept = self
            .intercept
            .iter()
            .map(|hosts| rule(hosts, Action::Intercept));
        let tunnel = self.tunnel.iter().map(|hosts| rule(hosts, Action::Tunnel));
        rules.rules.splice(0..0, intercept.chain(tunnel));
        put(&mut rules.default, self.default);
        put(&mut rules.learn_for, self.learn_for);
        put_list(&mut rules.allow, &self.allow);
        rules.deny.extend(self.deny.iter().cloned());
        put_list(&mut rules.ports, &self.allow_port);
        rules.networks.extend(self.allow_network.iter().copied());
        rules.resolve.splice(0..0, self.resolve.iter().cloned());
        rules.private |= self.allow_private;
    }
}

fn default_action(text: &str) -> Result<lucarne_proxy::Action, FlagError> {
    Ok(KEYS.default.parse(text)?)
}

fn store_memory(text: &str) -> Result<u64, FlagError> {
    Ok(KEYS.storememory.parse(text)?)
}

fn put_list<T: Clone>(place: &mut Vec<T>, values: &[T]) {
    if !values.is_empty() {
        *place = values.to_vec();
    }
}
