//! Opens the parts of the configuration: CA, store, users, trusted roots.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use lucarne_ct::{Certificate, Roots};
use lucarne_mint::store::{
    CertificateStore, DiskOptions, DiskStore, LayeredStore, MemoryStore, MintOptions, Minter,
    NoStore, StoreOptions,
};
use lucarne_mint::{Authority, CaDirectory, CaOptions, KeyType, now_ms, pem};
use lucarne_net::without_secrets;
use lucarne_proxy::observe::{self, LogListSource, Observer, SubmitTo};
use lucarne_proxy::{HostPattern, Trust, UpstreamRoute, Users};
use lucarne_settings::read_text;
use rustls::pki_types::CertificateDer;
use rustls::{KeyLog, KeyLogFile};

use super::config::{Config, LeafKeys, StoreKind, Through, UserSources};
use crate::config::check_secret_file;

/// Opens the CA, or creates it. Returns whether the CA is new.
pub(super) fn authority(directory: &CaDirectory) -> Result<(Authority, bool)> {
    let name = format!("Lucarne proxy CA {}", machine());
    let mut options = CaOptions::named(&name, KeyType::EcdsaP256);
    // The CA must be valid before the backdated certificates that it issues.
    options.not_before = options.not_before.plus_days(-6);
    Ok(directory.open_or_create(&options)?)
}

/// Logs a warning if the group of the CA's key can read it, or if clients refuse the CA: it is not
/// a CA, has expired or is not valid yet.
pub(super) fn warn_of_ca(directory: &CaDirectory, ca: &Authority) -> Result<()> {
    check_secret_file(&directory.key_file())?;
    let Ok(certificate) = Certificate::parse(ca.cert_der()) else {
        return Ok(());
    };
    let now = now_ms().cast_signed();
    let why = if !certificate.is_authority() {
        "is not the certificate of a CA"
    } else if certificate.not_after().is_some_and(|end| end < now) {
        "has expired"
    } else if certificate.not_before().is_some_and(|start| start > now) {
        "is not valid yet"
    } else {
        return Ok(());
    };
    tracing::warn!(
        "the certificate in {} {why}: clients refuse every certificate that the proxy creates: \
         replace the CA",
        directory.path().display()
    );
    Ok(())
}

/// Returns the name of the machine, which distinguishes CAs in lists of trusted roots.
fn machine() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    name.chars().take(32).collect()
}

/// Creates the minter with the configured store.
pub(super) fn minter(config: &Config, ca: Authority) -> Result<Minter> {
    let leaf_keys = config.leaf_keys;
    let options = MintOptions {
        key_type: config.key_type,
        leaf_key: leaf_keys
            .unwrap_or_else(|| LeafKeys::best_for(config.key_type))
            .into(),
        lifetime: config.lifetime,
        ..MintOptions::default()
    };
    Minter::new(ca, store(config)?, options).context("cannot mint certificates")
}

fn store(config: &Config) -> Result<Arc<dyn CertificateStore>> {
    let options = StoreOptions {
        max_bytes: config.store_memory,
        ..StoreOptions::default()
    };
    let disk = || -> Result<DiskStore> {
        let directory = config.store_directory.as_deref();
        let directory = directory.ok_or_else(|| {
            anyhow!(
                "the stores `disk` and `layered` need a directory: --store-directory DIR (or \
                 storedirectory: DIR)"
            )
        })?;
        let options = DiskOptions {
            store: options.clone(),
            ..DiskOptions::default()
        };
        Ok(DiskStore::open(directory, options)?)
    };
    Ok(match config.store_kind() {
        StoreKind::Memory => Arc::new(MemoryStore::new(options)),
        StoreKind::Disk => Arc::new(disk()?),
        StoreKind::Layered => Arc::new(LayeredStore::new(options.clone(), Arc::new(disk()?))),
        StoreKind::None => Arc::new(NoStore::new(&options)),
    })
}

/// Reads the users of the proxy; `None` if every client may use the proxy.
pub(super) fn users(sources: &UserSources) -> Result<Option<Users>> {
    let mut lines = sources.given.join("\n");
    if let Some(file) = &sources.file {
        check_secret_file(file)?;
        let text = read_text(file)
            .with_context(|| format!("cannot read the users in {}", file.display()))?;
        lines = format!("{text}\n{lines}");
    }
    if sources.file.is_none() && sources.given.is_empty() {
        return Ok(None);
    }
    let place = match &sources.file {
        None => "--user".to_owned(),
        Some(file) if sources.given.is_empty() => file.display().to_string(),
        Some(file) => format!("{}, or in --user", file.display()),
    };
    let users = Users::parse(&lines).with_context(|| format!("invalid users in {place}"))?;
    Ok(Some(users))
}

/// Returns the upstream proxies. This function reads the passwords of the proxies.
pub(super) fn through(config: &Config) -> Result<Vec<UpstreamRoute>> {
    let way = |through: &Through| {
        let mut proxy = through.proxy.clone();
        if let (Some(bare), Some(secret)) = (&proxy, &through.password) {
            let password = secret.text();
            let password =
                password.map_err(|why| anyhow!("the password of {bare}: {secret} {why}"))?;
            let whole = bare.clone().with_password(&password);
            proxy = Some(whole.with_context(|| format!("cannot add the password to {bare}"))?);
        }
        Ok(UpstreamRoute {
            hosts: through.hosts.clone(),
            through: proxy,
        })
    };
    config.through.iter().map(way).collect()
}

/// Opens the file for TLS secrets that `SSLKEYLOGFILE` names, as in browsers and curl. Returns
/// `None` without this variable.
pub(super) fn key_log() -> Result<Option<Arc<dyn KeyLog>>> {
    let file = std::env::var_os("SSLKEYLOGFILE").filter(|file| !file.is_empty());
    let Some(file) = file.map(PathBuf::from) else {
        return Ok(None);
    };
    // rustls would create the file readable by other users, and ignore errors.
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o600).open(&file);
    let place = file.display();
    opened.with_context(|| format!("cannot write to {place}, which SSLKEYLOGFILE names"))?;
    tracing::warn!(
        "SSLKEYLOGFILE is set: the secrets of all TLS connections, of clients and to servers, are \
         written to {place}; anyone who can read the file can decrypt recorded connections"
    );
    Ok(Some(Arc::new(KeyLogFile::new())))
}

/// Returns the CAs that the proxy trusts for servers: the system's CAs and the CAs in the
/// configured files. The second value has the same CAs in the type of the observer.
pub(super) fn trust(config: &Config) -> Result<(Trust, Arc<Roots>)> {
    let mut trusted = if config.system_roots {
        lucarne_net::Trust::system()
    } else {
        lucarne_net::Trust::none()
    };
    for file in &config.upstream_ca {
        let added = trusted.with(certificates(file)?);
        trusted = added.with_context(|| format!("cannot use the CAs in {}", file.display()))?;
    }
    let mut insecure = config.insecure_hosts.clone();
    insecure.extend(config.insecure.then(HostPattern::all));
    if trusted.is_empty() && insecure.is_empty() && config.fingerprints.is_empty() {
        bail!(
            "no server certificate can be verified: the system has no trusted CAs, and \
             --upstream-ca is missing: install ca-certificates (on Debian), or give --upstream-ca"
        );
    }
    let pem: String = trusted
        .certificates()
        .iter()
        .map(|der| pem::encode("CERTIFICATE", der))
        .collect();
    let (observed, _odd) = Roots::from_pem(pem.as_bytes());
    let trust = Trust {
        trusted,
        insecure,
        fingerprints: config.fingerprints.clone(),
    };
    Ok((trust, Arc::new(observed)))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unusable = || format!("cannot use the CAs in {}", file.display());
    let text = std::fs::read(file).with_context(unusable)?;
    let certificates = pem::certificates(&text).with_context(unusable)?;
    Ok(certificates.into_iter().map(CertificateDer::from).collect())
}

/// Creates the observer of server certificates.
pub(super) async fn observer(
    config: &Config,
    trust: &Trust,
    roots: Arc<Roots>,
) -> Result<Arc<Observer>> {
    let tls = Arc::new(lucarne_net::trusting(trust.trusted.clone()));
    let mut options = observe::ObserveOptions::new(tls);
    options.log_list = config.log_list.as_deref().map(log_list).transpose()?;
    options.submit_to = submit_to(config)?;
    options.roots = roots;
    options.inventory = inventory(config)?;
    options.max_hosts = config.limits.hosts;
    Ok(Observer::start(options).await?)
}

/// Returns the options of the inventory, if there is a database.
fn inventory(config: &Config) -> Result<Option<observe::InventoryOptions>> {
    let Some(database) = config.database.clone() else {
        if config.webhook.is_some() {
            bail!("`observe.webhook` sends the events of the inventory: set `observe.database`");
        }
        return Ok(None);
    };
    let mut options = observe::InventoryOptions::new(database);
    options.webhook.clone_from(&config.webhook);
    options.expiry = Duration::from_secs(config.expiry_days * 86_400);
    Ok(Some(options))
}

/// Returns the logs for submissions, each with its key if there is one.
fn submit_to(config: &Config) -> Result<Vec<SubmitTo>> {
    let (logs, keys) = (&config.submit_to, &config.submit_keys);
    if keys.len() > logs.len() {
        bail!(
            "there are {} keys (--submit-key) for {} logs (--submit-to): give at most one key for \
             each log, in the same order",
            keys.len(),
            logs.len()
        );
    }
    let mut keys = keys.iter().map(|file| public_key(file));
    let with_key = |log: &url::Url| {
        let key = keys.next().transpose()?;
        Ok(SubmitTo {
            log: log.clone(),
            key,
        })
    };
    logs.iter().map(with_key).collect()
}

fn log_list(place: &str) -> Result<LogListSource> {
    if !place.contains("://") {
        return Ok(LogListSource::File(place.into()));
    }
    let url = place
        .parse()
        .with_context(|| format!("invalid URL of the log list {}", without_secrets(place)))?;
    Ok(LogListSource::Url(url))
}

fn public_key(file: &Path) -> Result<Vec<u8>> {
    let text = read_text(file)
        .with_context(|| format!("cannot read the log's key in {}", file.display()))?;
    let blocks =
        pem::decode(&text).with_context(|| format!("invalid key in {}", file.display()))?;
    let key = blocks.into_iter().find(|(label, _)| label == "PUBLIC KEY");
    key.map(|(_, der)| der).ok_or_else(|| {
        anyhow!(
            "expected a PEM block PUBLIC KEY in {}, found none",
            file.display()
        )
    })
}
