//! Certificates and keys from files: client certificates for servers, and certificates for clients.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use lucarne_mint::store::{DEFAULT_ALPN, Host, Minter, OwnCertificate};
use lucarne_proxy::{ClientCertificate, HostPattern, Identity, Proxy, Target};

use super::config::{Config, Pair};
use crate::causes::causes;
use crate::tls::{self, both, read, read_key};

/// Certificates in files, and a watch for changes.
pub(super) struct Pairs {
    shown: Vec<(Pair, ClientCertificate)>,
    own: Vec<(Pair, OwnCertificate)>,
    watch: tls::Watch,
}

impl Pairs {
    /// Reads all files that `config` names.
    ///
    /// # Errors
    /// If a file cannot be read, or a certificate does not match its key.
    pub(super) fn read(config: &Config) -> Result<Self> {
        let pairs = || config.shown.iter().chain(&config.own);
        let files = pairs().flat_map(|pair| [pair.certificate.clone(), pair.key.clone()]);
        // The watch starts first, so that changes during the reading are noticed.
        let watch = tls::Watch::new(files.collect());
        Ok(Pairs {
            shown: read_all(&config.shown, shown)?,
            own: read_all(&config.own, own)?,
            watch,
        })
    }

    /// Returns the client certificates for servers.
    pub(super) fn shown(&self) -> Vec<ClientCertificate> {
        self.shown.iter().map(|(_, shown)| shown.clone()).collect()
    }

    /// Returns the certificates for clients.
    pub(super) fn own(&self) -> Vec<OwnCertificate> {
        self.own.iter().map(|(_, own)| own.clone()).collect()
    }

    /// Returns whether a file has changed since the last call.
    pub(super) fn changed(&mut self) -> bool {
        self.watch.changed()
    }

    /// Rereads the files. A certificate that cannot be read stays unchanged.
    pub(super) fn reread(&mut self, minter: &Arc<Minter>, proxy: &Proxy) {
        reread(&mut self.shown, shown);
        reread(&mut self.own, own);
        proxy.replace_shown(&self.shown());
        minter.replace_own(self.own());
    }
}

fn read_all<T>(pairs: &[Pair], read: fn(&Pair) -> Result<T>) -> Result<Vec<(Pair, T)>> {
    let read = |pair: &Pair| Ok((pair.clone(), read(pair)?));
    pairs.iter().map(read).collect()
}

fn reread<T>(pairs: &mut [(Pair, T)], read: fn(&Pair) -> Result<T>) {
    for (pair, held) in pairs {
        let certificate = pair.certificate.display();
        match read(pair) {
            Ok(now) => {
                *held = now;
                tracing::info!(%certificate, "certificate read");
            }
            Err(error) => {
                tracing::error!("{}; the certificate stays as it was", causes(&error));
            }
        }
    }
}

fn shown(pair: &Pair) -> Result<ClientCertificate> {
    let (certificates, key) = (read(&pair.certificate)?, read_key(&pair.key)?);
    let identity = Identity::from_pem(&certificates, &key)
        .with_context(|| both(&pair.certificate, &pair.key))?;
    Ok(ClientCertificate {
        hosts: pair.hosts.clone(),
        identity,
    })
}

fn own(pair: &Pair) -> Result<OwnCertificate> {
    let (certificates, key) = (read(&pair.certificate)?, read_key(&pair.key)?);
    let alpn = DEFAULT_ALPN.map(str::to_owned);
    let own = OwnCertificate::from_pem(&certificates, &key, &alpn)
        .with_context(|| both(&pair.certificate, &pair.key))?;
    let certificate = pair.certificate.display();
    if pair.hosts.port().is_some() {
        bail!(
            "{certificate} is for {}, which has a port: remove the port, because the certificate \
             applies to all ports of a host",
            pair.hosts
        );
    }
    if !can_serve(&own, &pair.hosts) {
        bail!(
            "{certificate} is not for {}: it names {}",
            pair.hosts,
            own.names().join(", ")
        );
    }
    if own.not_after() < SystemTime::now() {
        tracing::warn!("{certificate} has expired: clients will refuse it");
    }
    let hosts = pair.hosts.clone();
    Ok(own.only_for(move |host| covers(&hosts, host)))
}

/// Returns whether the certificate may cover any of `hosts`. The intersection of a pattern and a
/// wildcard is only known for a specific host.
fn can_serve(own: &OwnCertificate, hosts: &HostPattern) -> bool {
    if let Some(host) = hosts.host() {
        return own.covers(&host);
    }
    let fits = |name: &String| match Host::parse(name) {
        Ok(host) => covers(hosts, &host),
        Err(_) => name.starts_with("*."),
    };
    let names = own.names();
    names.is_empty() || names.iter().any(fits)
}

fn covers(hosts: &HostPattern, host: &Host) -> bool {
    let host = host.clone();
    hosts.matches(&Target { host, port: 443 })
}
