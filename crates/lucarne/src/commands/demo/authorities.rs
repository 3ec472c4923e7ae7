//! Certificate authorities of the demo: one root, and an intermediate for each key type of the
//! WebPKI.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use lucarne_mint::{Authority, CaOptions, KeyType, Name};

/// File, common name and key of each intermediate.
const INTERMEDIATES: [(&str, &str, KeyType); 3] = [
    ("rsa2048.pem", "Demo R1", KeyType::Rsa(2048)),
    ("p256.pem", "Demo E1", KeyType::EcdsaP256),
    ("p384.pem", "Demo E2", KeyType::EcdsaP384),
];

/// Issuing authorities.
pub(super) struct Authorities {
    pub(super) root: Authority,
    pub(super) intermediates: Vec<Authority>,
}

impl Authorities {
    /// Opens the authorities in `directory`, and creates missing authorities.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create directory {}", directory.display()))?;
        let root = open(&directory.join("root.pem"), || {
            Authority::root(&options("Demo Root", KeyType::EcdsaP384))
        })?;
        let intermediate = |(file, name, key): &(&str, &str, KeyType)| {
            let make = || root.intermediate(&options(name, *key));
            open(&directory.join(file), make)
        };
        let intermediates = INTERMEDIATES.iter().map(intermediate);
        let intermediates = intermediates.collect::<Result<_>>()?;
        Ok(Authorities {
            root,
            intermediates,
        })
    }
}

fn options(name: &str, key: KeyType) -> CaOptions {
    CaOptions {
        name: Name::of_ca("XX", "Lucarne Demo", name),
        ..CaOptions::named(name, key)
    }
}

fn open(
    file: &Path,
    make: impl FnOnce() -> Result<Authority, lucarne_mint::MintError>,
) -> Result<Authority> {
    let why = || {
        format!(
            "cannot open or create the demo authority {}",
            file.display()
        )
    };
    if file.exists() {
        let pem = std::fs::read_to_string(file).with_context(why)?;
        return Authority::from_pem(&pem).with_context(why);
    }
    let authority = make().with_context(why)?;
    let pem = authority.to_pem().with_context(why)?;
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let written = options
        .open(file)
        .and_then(|mut writing| writing.write_all(pem.as_bytes()));
    written.with_context(why)?;
    Ok(authority)
}
