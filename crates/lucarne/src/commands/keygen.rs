//! `lucarne keygen`: generates the key of a log or of a witness.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use lucarne_ct::LogKey;

use super::failed;
use crate::cli::Keygen;
use crate::config::{describe_key, read_key, read_seed};

/// Creates the file, or reads the existing file, and prints its public keys.
pub(crate) fn run(options: &Keygen) -> ExitCode {
    let described =
        make_or_read(&options.file).and_then(|key| match (&options.witness, &options.mirror) {
            (None, None) => described(&key, options.origin.as_deref()),
            (Some(name), _) => describe_witness(&options.file, name),
            (None, Some(name)) => describe_mirror(&options.file, name),
        });
    match described {
        Ok(described) => {
            out!("{described}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("{error:#}")),
    }
}

/// Formats the verifier keys of a witness.
fn describe_witness(file: &Path, name: &str) -> Result<String> {
    let seed = read_seed(file).map_err(|why| anyhow::anyhow!("{} {why}", file.display()))?;
    let keys = lucarne_ct::witness_cosigners(&seed, name)
        .with_context(|| format!("--witness {name:?}"))?;
    let [ed25519, ml_dsa_44] = keys.each_ref().map(|key| key.verifier());
    Ok(format!("Ed25519:   {ed25519}\nML-DSA-44: {ml_dsa_44}\n"))
}

/// Formats the verifier key of a mirror.
fn describe_mirror(file: &Path, name: &str) -> Result<String> {
    let seed = read_seed(file).map_err(|why| anyhow::anyhow!("{} {why}", file.display()))?;
    let (key, _) =
        lucarne_ct::mirror_cosigner(&seed, name).with_context(|| format!("--mirror {name:?}"))?;
    Ok(format!("ML-DSA-44: {}\n", key.verifier()))
}

/// Formats the public key, and the verifier key of the second signature if there is an origin.
fn described(key: &LogKey, origin: Option<&str>) -> Result<String> {
    let mut keys = describe_key(key);
    if let Some(origin) = origin {
        let unusable = || format!("--origin {origin}");
        let cosigner = key.cosigner(origin).with_context(unusable)?;
        let cosigner = cosigner.context("a PEM key has no second key: use a seed")?;
        keys.push_str(&format!(
            "\nVerifier key (ML-DSA-44):\n{}\n",
            cosigner.verifier()
        ));
    }
    Ok(keys)
}

fn make_or_read(file: &Path) -> Result<LogKey> {
    match make(file) {
        Ok(key) => {
            let file = file.display();
            noteln!("created {file}; keep it secret, and keep a copy: the log is lost without it");
            Ok(key)
        }
        Err(error) if is_already_there(&error) && !file.exists() => Err(anyhow::anyhow!(
            "{} is a symbolic link to a file that does not exist: name that file, or remove the \
             link",
            file.display()
        )),
        Err(error) if is_already_there(&error) => {
            let key = read_key(file).map_err(|why| {
                anyhow::anyhow!("{} exists and {why}; nothing was changed", file.display())
            })?;
            noteln!(
                "{} exists and was not changed; this is its key",
                file.display()
            );
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

fn is_already_there(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::AlreadyExists)
}

/// Writes a new seed to stable storage. Only the owner can read the file, and an existing file is
/// never overwritten.
pub(crate) fn make(file: &Path) -> Result<LogKey> {
    let mut seed = [0; 32];
    aws_lc_rs::rand::fill(&mut seed)
        .map_err(|_| anyhow::anyhow!("cannot create a key: the system has no random numbers"))?;
    let key = LogKey::from_seed(&seed).context("cannot derive a key")?;
    let mut writing = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("cannot create {}", file.display()))?;
    writing
        .write_all(&seed)
        .and_then(|()| writing.sync_all())
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(key)
}
