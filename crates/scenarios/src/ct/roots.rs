//! The certificate authorities that a load test issues from, made once and
//! kept, so that a log can be configured with their roots.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lucarne_mint::{Authority, CaOptions, KeyPair, KeyType, pem};

/// The file that a log is configured with: the roots' certificates, in PEM.
const ROOTS: &str = "roots.pem";

/// Two roots and what is below them.
///
/// | file | authority | below |
/// |---|---|---|
/// | `root-x1.pem` | RSA-2048 root | |
/// | `root-x2.pem` | P-384 root | |
/// | `rsa.pem` | RSA-2048 intermediate | X1 |
/// | `p256.pem` | P-256 intermediate | X2 |
/// | `p384.pem` | P-384 intermediate | X2 |
/// | `cross.pem` | P-256 intermediate | X2, cross-signed by X1 |
///
/// Each file holds a private key and the certificates up to the root, mode
/// 0600; `roots.pem` holds the roots' certificates and no secret.
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
    /// P-256 intermediate whose chain goes through a cross-signed root: one
    /// certificate longer.
    pub cross: Authority,
}

/// The authorities cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The disk refused.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file that is not what this program wrote.
    #[error("{path}: {error}; delete the directory to have new authorities made", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        error: lucarne_mint::MintError,
    },
    /// Making the authorities failed.
    #[error("making certificate authorities: {0}")]
    Mint(#[from] lucarne_mint::MintError),
    /// There are none, and none are to be made.
    #[error("{path} holds no load-test authorities; make them with `lucarne ca new {path}` and give {path}/{ROOTS} to the log", path = _0.display())]
    Missing(PathBuf),
}

impl Roots {
    /// Opens the authorities in `directory`; makes them if it does not exist or
    /// is empty.
    ///
    /// # Errors
    /// Files that cannot be read, written or understood.
    pub fn open_or_create(directory: &Path) -> Result<Self, RootsError> {
        match Self::open(directory) {
            Err(RootsError::Missing(_)) => Self::create(directory),
            outcome => outcome,
        }
    }

    /// Opens the authorities in `directory`.
    ///
    /// # Errors
    /// [`RootsError::Missing`] where there are none; files that cannot be read
    /// or understood.
    pub fn open(directory: &Path) -> Result<Self, RootsError> {
        if !directory.join(ROOTS).exists() {
            return Err(RootsError::Missing(directory.to_owned()));
        }
        let read = |name: &str| {
            let path = directory.join(name);
            let text = fs::read_to_string(&path).map_err(|error| io_error(&path, error))?;
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

    /// Makes new authorities and writes them. All files appear at once, or none.
    fn create(directory: &Path) -> Result<Self, RootsError> {
        let roots = Self::make(directory)?;
        let staging = directory.with_extension(format!("new-{}", std::process::id()));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&staging)
            .map_err(|error| io_error(&staging, error))?;
        let written = roots.write(&staging).and_then(|()| {
            // Renaming replaces an empty directory, and nothing else.
            fs::rename(&staging, directory).map_err(|error| io_error(directory, error))
        });
        match written {
            Ok(()) => Ok(roots),
            Err(error) => {
                let _ = fs::remove_dir_all(&staging);
                // Another process may have been quicker: then its are the ones.
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

    /// The directory in which they are kept.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file that a log is configured with.
    #[must_use]
    pub fn roots_file(&self) -> PathBuf {
        self.directory.join(ROOTS)
    }

    /// The roots' certificates as PEM: what a log accepts chains by.
    #[must_use]
    pub fn roots_pem(&self) -> String {
        self.x1.certificate_pem() + &self.x2.certificate_pem()
    }

    /// One line for each authority: its name, its key, the length of its chain.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let line = |name: &str, authority: &Authority| {
            let key = authority.key().kind();
            let length = authority.certificates().len();
            format!("{name:<8} {key:?}, {length} certificates up to the root")
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

/// An intermediate below the key of `x2`, whose chain ends in `x1` through a
/// certificate of `x2`'s key that `x1` has signed.
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
        .map_err(|error| io_error(path, error))
}

fn io_error(path: &Path, error: io::Error) -> RootsError {
    RootsError::Io {
        path: path.to_owned(),
        error,
    }
}

/// PEM blocks of certificates, in DER.
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
