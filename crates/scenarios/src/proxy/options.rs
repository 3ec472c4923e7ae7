//! The options of `proxy`.

use std::path::PathBuf;

use clap::Args;
use lucarne_settings::typed;
use serde::Deserialize;

use crate::connection_options::StatusRange;
use crate::option_values::{TimeSpan, defaults};

/// The proxy that is asked, for which hosts, and what must be true of the answers.
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
    /// A host to ask for; several take turns
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[serde(deserialize_with = "typed::list")]
    pub host: Vec<String>,
    /// How many hosts take turns, if none is named
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub hosts: u32,
    /// What they are called; {} is the number
    #[arg(long, value_name = "TEXT", default_value = TEMPLATE)]
    pub template: String,
    /// Where all of them are: what CONNECT names in the host's stead
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Port of the hosts
    #[arg(long, value_name = "N", default_value_t = 443)]
    pub port: u16,
    /// What to ask the hosts for
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub path: String,
    /// Statuses of the answer that are right (200, 2xx) [default: 2xx, 3xx]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    #[serde(deserialize_with = "typed::list")]
    pub expect: Vec<StatusRange>,
    /// PEM file of the proxy's CA, which alone may issue; may be repeated [default: what the system trusts]
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,
    /// Do not look at the certificates' names and issuers
    #[arg(long)]
    pub insecure: bool,
    /// A host that shows a second certificate fails
    #[arg(long)]
    pub once: bool,
    /// User and password for the proxy
    #[arg(long, value_name = "USER:PASSWORD")]
    pub proxy_user: Option<String>,
    /// The most a request may take, connecting included
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(60))]
    pub timeout: TimeSpan,
    /// The most that connecting, the tunnel and the TLS handshake may take together
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(10))]
    pub connect_timeout: TimeSpan,
}

/// A domain that is nobody's (RFC 6761).
const TEMPLATE: &str = "host-{}.test";

impl Default for ProxyScenarioOptions {
    fn default() -> Self {
        defaults()
    }
}

impl ProxyScenarioOptions {
    /// The names of all hosts, in the order of their turns.
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
