//! Certificate authorities of load tests. The authorities are created once and stored, so that a
//! log can be configured with their roots.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lucarne_mint::{Authority, CaOptions, KeyPair, KeyType, pem};
use lucarne_net::counted;

/// File with the roots' certificates in PEM, for the configuration of logs.
const ROOTS: &str = "roots.pem";

/// Two roots and their intermediates.
///
/// | file | authority | issuer |
/// |---|---|---|
/// | `root-x1.pem` | RSA-2048 root | |
/// | `root-x2.pem` | P-384 root | |
/// | `rsa.pem` | RSA-2048 intermediate | X1 |
/// | `p256.pem` | P-256 intermediate | X2 |
/// | `p384.pem` | P-384 intermediate | X2 |
/// | `cross.pem` | P-256 intermediate | X2, cross-signed by X1 |
///
/// Each file contains a private key and the certificates up to the root, with mode 0600.
/// `roots.pem` contains the roots' certificates and no secret.
#[derive(Clone, Debug)]
pub struct Roots {
    directory: PathBuf,
    /// RSA-2048 root.
    pub x1: Authority,
    /// P-384 root.
    pub x2: Authority,
    /// RSA-2048 intermediate: the usual issuer of RSA chains.
    pub rsa: Authority,
    /// P-256 intermediate.
    pub p256: Authority,
    /// P-384 intermediate.
    pub p384: Authority,
    /// P-256 intermediate whose chain goes through a cross-signed root, and is one certificate
    /// longer.
    pub cross: Authority,
}

/// Errors of opening or creating the authorities.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// A file operation failed.
    #[error("cannot {action} {path}: {error}", path = path.display())]
    Io {
        /// The failed operation.
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A file is not in the format that this program writes.
    #[error(
        "cannot use {path}: {error}; delete the directory to create new authorities",
        path = path.display()
    )]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error in the file.
        error: lucarne_mint::MintError,
    },
    /// Creating the authorities failed.
    #[error("cannot create certificate authorities: {0}")]
    Mint(#[from] lucarne_mint::MintError),
    /// The directory has no authorities, and none are to be created.
    #[error("{path} has no load-test authorities; create them with `lucarne ca new {path}` and give {path}/{ROOTS} to the log", path = _0.display())]
    Missing(PathBuf),
    /// The path is a file.
    #[error("{} is a file: expected a directory of load-test authorities (`lucarne ca new DIRECTORY`)", _0.display())]
    NotDirectory(PathBuf),
}

impl Roots {
    /// Opens the authorities in `directory`. Creates them if the directory does not
    /// exist or is empty.
    ///
    /// # Errors
    /// If files cannot be read, written or parsed.
    pub fn open_or_create(directory: &Path) -> Result<Self, RootsError> {
        match Self::open(directory) {
            Err(RootsError::Missing(_)) => Self::create(directory),
            outcome => outcome,
        }
    }

    /// Opens the authorities in `directory`.
    ///
    /// # Errors
    /// [`RootsError::Missing`] if there are none; files that cannot be read or parsed.
    pub fn open(directory: &Path) -> Result<Self, RootsError> {
        if directory.is_file() {
            return Err(RootsError::NotDirectory(directory.to_owned()));
        }
        if !directory.join(ROOTS).exists() {
            return Err(RootsError::Missing(directory.to_owned()));
        }
        let read = |name: &str| {
            let path = directory.join(name);
            let text = fs::read_to_string(&path).map_err(|error| io_error("read", &path, error))?;
            Authority::from_pem(&text).map_err(|error| RootsError::File { path, error })
        };
        Ok(Self {
            directory: directory.to_owned(),
            x1: read("root-x1.pem")?,
            x2: read("root-x2.pem")?,
            rsa: read("rsa.pem")?,
            p256: read("p256.pem")?,
            p384: read("p384.pem")?,
            cross: read("cross.pem")?,
        })
    }

    /// Creates authorities and writes them. All files appear at once, or none.
    fn create(directory: &Path) -> Result<Self, RootsError> {
        let roots = Self::make(directory)?;
        let staging = directory.with_extension(format!("new-{}", std::process::id()));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&staging)
            .map_err(|error| io_error("create", &staging, error))?;
        let written = roots.write(&staging).and_then(|()| {
            // The rename fails if the directory is not empty.
            fs::rename(&staging, directory).map_err(|error| io_error("create", directory, error))
        });
        match written {
            Ok(()) => Ok(roots),
            Err(error) => {
                let _ = fs::remove_dir_all(&staging);
                // Another process may have created the directory first: its files are used.
                Self::open(directory).map_err(|_| error)
            }
        }
    }

    fn make(directory: &Path) -> Result<Self, lucarne_mint::MintError> {
        let x1 = Authority::root(&ca("Lucarne Load Root X1", KeyType::Rsa(2048), None))?;
        let x2 = Authority::root(&ca("Lucarne Load Root X2", KeyType::EcdsaP384, None))?;
        let below = |root: &Authority, name, key| root.intermediate(&ca(name, key, Some(0)));
        Ok(Self {
            directory: directory.to_owned(),
            rsa: below(&x1, "Lucarne Load R1", KeyType::Rsa(2048))?,
            p256: below(&x2, "Lucarne Load E1", KeyType::EcdsaP256)?,
            p384: below(&x2, "Lucarne Load E2", KeyType::EcdsaP384)?,
            cross: cross_signed(&x1, &x2)?,
            x1,
            x2,
        })
    }

    fn write(&self, directory: &Path) -> Result<(), RootsError> {
        for (name, authority) in [
            ("root-x1.pem", &self.x1),
            ("root-x2.pem", &self.x2),
            ("rsa.pem", &self.rsa),
            ("p256.pem", &self.p256),
            ("p384.pem", &self.p384),
            ("cross.pem", &self.cross),
        ] {
            write_new(&directory.join(name), 0o600, &authority.to_pem()?)?;
        }
        write_new(&directory.join(ROOTS), 0o644, &self.roots_pem())
    }

    /// Returns the directory of the authorities.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the file for the configuration of a log.
    #[must_use]
    pub fn roots_file(&self) -> PathBuf {
        self.directory.join(ROOTS)
    }

    /// Returns the roots' certificates in PEM, for the configuration of a log.
    #[must_use]
    pub fn roots_pem(&self) -> String {
        self.x1.certificate_pem() + &self.x2.certificate_pem()
    }

    /// Returns a line for each authority: name, key, and length of the chain.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let line = |name: &str, authority: &Authority| {
            let key = authority.key().kind();
            let length = counted(authority.certificates().len(), "certificate");
            format!("{name:<8} {key}, {length} up to the root")
        };
        vec![
            line("root-x1", &self.x1),
            line("root-x2", &self.x2),
            line("rsa", &self.rsa),
            line("p256", &self.p256),
            line("p384", &self.p384),
            line("cross", &self.cross),
        ]
    }
}

fn ca(name: &str, key: KeyType, path_length: Option<u8>) -> CaOptions {
    CaOptions {
        path_length,
        ..CaOptions::named(name, key)
    }
}

/// Creates an intermediate below the key of `x2`. The chain of the intermediate ends in `x1`,
/// through a certificate of `x2`'s key that `x1` signed.
fn cross_signed(x1: &Authority, x2: &Authority) -> Result<Authority, lucarne_mint::MintError> {
    let options = CaOptions {
        name: x2.name().clone(),
        ..ca("", x2.key().kind(), Some(1))
    };
    let pkcs8 = x2.key().to_pkcs8()?;
    let template = x1.ca_template(&options, x2.key())?;
    let bridge = x1.subordinate(KeyPair::from_pkcs8(&pkcs8)?, &template)?;
    bridge.intermediate(&ca("Lucarne Load E3", KeyType::EcdsaP256, Some(0)))
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), RootsError> {
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| io_error("write", path, error))
}

fn io_error(action: &'static str, path: &Path, error: io::Error) -> RootsError {
    RootsError::Io {
        action,
        path: path.to_owned(),
        error,
    }
}

/// Parses PEM certificates into DER.
pub(crate) fn certificates(text: &str) -> Result<Vec<Vec<u8>>, lucarne_mint::MintError> {
    Ok(pem::certificates(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca");
        assert!(matches!(Roots::open(&path), Err(RootsError::Missing(_))));
        let made = Roots::open_or_create(&path).unwrap();
        // A file of the directory in place of the directory.
        let file = Roots::open(&path.join(ROOTS)).unwrap_err().to_string();
        assert!(
            file.contains("roots.pem is a file: expected a directory"),
            "{file}"
        );
        let again = Roots::open_or_create(&path).unwrap();
        assert_eq!(made.roots_pem(), again.roots_pem());
        assert_eq!(made.cross.certificates(), again.cross.certificates());
        assert_eq!(again.cross.certificates().len(), 3);
        assert_eq!(again.cross.certificates()[2], again.x1.cert_der());
        assert_eq!(certificates(&again.roots_pem()).unwrap().len(), 2);
        let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode();
        assert_eq!(mode("rsa.pem") & 0o777, 0o600);
        assert_eq!(mode(ROOTS) & 0o777, 0o644);
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_damaged_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca");
        Roots::open_or_create(&path).unwrap();
        fs::write(path.join("p384.pem"), "nothing").unwrap();
        let error = Roots::open_or_create(&path).unwrap_err().to_string();
        assert!(error.contains("p384.pem"), "{error}");
    }
}
