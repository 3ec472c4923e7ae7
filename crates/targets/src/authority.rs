use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_mint::{Authority as Ca, CaOptions, KeyType, LeafOptions, pem};
use lucarne_testkit::{TempDir, temp_dir, tls_server};
use rustls::ServerConfig;

/// The authority of the targets: a root, and an intermediate that issues. Its
/// files go away with the value.
#[derive(Debug)]
pub struct Authority {
    issuer: Ca,
    directory: TempDir,
}

/// The certificate of a server and its key, as files: PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, and the intermediate's.
    pub chain: PathBuf,
    /// The key, in PKCS #8.
    pub key: PathBuf,
    /// Both in one file.
    pub both: PathBuf,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// No room for its files.
    pub fn new() -> Result<Self> {
        let root = CaOptions::named("Lucarne Targets Root", KeyType::EcdsaP256);
        let issuer = CaOptions::named("Lucarne Targets CA", KeyType::EcdsaP256);
        let authority = Self {
            issuer: Ca::root(&root)?.intermediate(&issuer)?,
            directory: temp_dir(),
        };
        let root = authority.issuer.certificates().last();
        let root = root.context("an authority has a root")?;
        fs::write(authority.ca_file(), pem::encode("CERTIFICATE", root))?;
        Ok(authority)
    }

    /// The root, as the PEM file that clients trust.
    pub fn ca_file(&self) -> PathBuf {
        self.path().join("ca.pem")
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A new certificate of a server at 127.0.0.1 and `localhost`, in files
    /// that begin with `name`.
    ///
    /// # Errors
    /// No room for them.
    pub fn identity(&self, name: &str) -> Result<Identity> {
        self.identity_for(name, &["localhost", "127.0.0.1"])
    }

    /// The same for other names.
    ///
    /// # Errors
    /// No room for them.
    pub fn identity_for(&self, name: &str, names: &[&str]) -> Result<Identity> {
        let options = LeafOptions::for_names(names.iter().copied())?;
        let chain = self.issuer.chain(self.issuer.issue(&options)?);
        let chain: String = chain
            .certificates()
            .iter()
            .map(|der| pem::encode("CERTIFICATE", der))
            .collect();
        let key = pem::encode("PRIVATE KEY", &options.key.to_pkcs8()?);
        let write = |kind: &str, text: &str| -> Result<PathBuf> {
            let path = self.path().join(format!("{name}-{kind}.pem"));
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            Ok(path)
        };
        Ok(Identity {
            chain: write("chain", &chain)?,
            key: write("key", &key)?,
            both: write("both", &format!("{chain}{key}"))?,
        })
    }

    /// Returns what a TLS server of our own shows for these names.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn server_config(&self, names: &[&str]) -> Result<Arc<ServerConfig>> {
        let options = LeafOptions::for_names(names.iter().copied())?;
        let chain = self.issuer.chain(self.issuer.issue(&options)?);
        tls_server(chain.certificates(), &options.key, &["h2", "http/1.1"])
    }
}
