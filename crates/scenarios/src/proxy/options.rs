//! Options of `proxy`.

use std::path::PathBuf;

use clap::Args;
use lucarne_settings::typed;
use serde::Deserialize;

use crate::connection_options::StatusRange;
use crate::option_values::TimeSpan;

/// Proxy, hosts and checks of the scenario.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ProxyScenarioOptions {
    /// The proxy (http://host:port)
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub proxy: String,
    /// Host to request; several take turns
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[serde(deserialize_with = "typed::list")]
    pub host: Vec<String>,
    /// Number of hosts that take turns, if none is named
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub hosts: u32,
    /// Names of the hosts; {} is the number
    #[arg(long, value_name = "TEXT", default_value = TEMPLATE)]
    pub template: String,
    /// Address of all hosts: the target of CONNECT instead of the host
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Port of the hosts
    #[arg(long, value_name = "N", default_value_t = 443)]
    pub port: u16,
    /// Path to request from the hosts
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub path: String,
    /// Expected statuses of the response (200, 2xx) [default: 2xx, 3xx]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    #[serde(deserialize_with = "typed::list")]
    pub expect: Vec<StatusRange>,
    /// PEM file of the proxy's CA, the only accepted issuer; may be repeated [default: the system's roots]
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,
    /// Do not check the certificates' names and issuers
    #[arg(long)]
    pub insecure: bool,
    /// Fail if a host presents a second certificate
    #[arg(long)]
    pub once: bool,
    /// User and password for the proxy
    #[arg(long, value_name = "USER:PASSWORD")]
    pub proxy_user: Option<String>,
    /// Time limit of a request, including connecting
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(60))]
    pub timeout: TimeSpan,
    /// Time limit of connecting, the tunnel and the TLS handshake together
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(10))]
    pub connect_timeout: TimeSpan,
}

/// Default of the host names: a reserved domain (RFC 6761).
const TEMPLATE: &str = "host-{}.test";

impl ProxyScenarioOptions {
    /// Returns the names of all hosts, in the order of their turns.
    pub(super) fn names(&self) -> Vec<String> {
        if !self.host.is_empty() {
            return self.host.clone();
        }
        let numbers = 0..self.hosts;
        numbers
            .map(|number| self.template.replace("{}", &number.to_string()))
            .collect()
    }
}
