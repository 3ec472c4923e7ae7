use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_mint::{Authority as Ca, CaOptions, KeyType, LeafOptions, pem};
use lucarne_testkit::{TempDir, temp_dir, tls_server};
use rustls::ServerConfig;

/// Authority of the targets: a root, and an intermediate that issues. Dropping the value removes
/// the files.
#[derive(Debug)]
pub struct Authority {
    issuer: Ca,
    directory: TempDir,
}

/// PEM files of a server's certificate and key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// File of the certificate, followed by the intermediate certificate.
    pub chain: PathBuf,
    /// File of the key in PKCS #8.
    pub key: PathBuf,
    /// File with the chain and the key.
    pub both: PathBuf,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Errors
    /// If the files of the CA cannot be written.
    pub fn new() -> Result<Self> {
        let root = CaOptions::named("Lucarne Targets Root", KeyType::EcdsaP256);
        let issuer = CaOptions::named("Lucarne Targets CA", KeyType::EcdsaP256);
        let authority = Self {
            issuer: Ca::root(&root)?.intermediate(&issuer)?,
            directory: temp_dir(),
        };
        let root = authority.issuer.certificates().last();
        let root = root.context("the authority has no root")?;
        fs::write(authority.ca_file(), pem::encode("CERTIFICATE", root))?;
        Ok(authority)
    }

    /// Returns the PEM file of the root for clients.
    pub fn ca_file(&self) -> PathBuf {
        self.path().join("ca.pem")
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Issues a certificate for a server at 127.0.0.1 and `localhost`, in files that begin with
    /// `name`.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn identity(&self, name: &str) -> Result<Identity> {
        self.identity_for(name, &["localhost", "127.0.0.1"])
    }

    /// Issues a certificate for other names.
    ///
    /// # Errors
    /// If the files cannot be written.
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

    /// Returns TLS settings with a new certificate for these names.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn server_config(&self, names: &[&str]) -> Result<Arc<ServerConfig>> {
        let options = LeafOptions::for_names(names.iter().copied())?;
        let chain = self.issuer.chain(self.issuer.issue(&options)?);
        tls_server(chain.certificates(), &options.key, &["h2", "http/1.1"])
    }
}
