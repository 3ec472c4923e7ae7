//! `lucarne ca`: the certificate authorities that load tests issue from, and
//! those that mint for a proxy.

#[cfg(feature = "load")]
mod issuing;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use lucarne_ct::{Certificate, display_name};
use lucarne_mint::store::Fingerprint;
use lucarne_mint::{Authority, CaDirectory, CaOptions, KeyType, Name, Time, pem};

#[cfg(feature = "load")]
use self::issuing::{new, show};
use super::failed;
#[cfg(not(feature = "load"))]
use super::without_load::ca::{new, show};

/// The commands about it.
#[derive(Debug, clap::Subcommand)]
pub enum Ca {
    /// Make them: once, so that a log can be told of their roots
    ///
    /// Makes an RSA and a P-384 root, intermediates with RSA, P-256 and P-384
    /// keys, and one below a cross-signed root. What exists is kept. Keys are
    /// readable by nobody else; `roots.pem` holds certificates alone.
    New(Directory),

    /// Print the roots in PEM, to be given to a log
    Show(Directory),

    /// Make one that mints certificates for a proxy, or for `serve --testcert`
    ///
    /// Writes ca.pem, the certificate, for clients to trust, and ca-key.pem, the
    /// private key, mode 0600; says how to trust it. What exists is kept.
    Mint(Mint),

    /// Say what a CA is, and how to trust it
    ///
    /// Prints name, key, validity and fingerprint of each certificate.
    Inspect(Inspect),
}

/// The files to make, and where.
#[derive(Debug, clap::Args)]
pub struct Mint {
    /// Its directory: what --ca of `lucarne proxy` names
    #[arg(value_name = "DIR", default_value = "ca")]
    pub directory: PathBuf,

    /// Kind of its key: p256, p384, rsa2048, rsa4096, ed25519
    #[arg(long, value_name = "KIND", default_value = "p256")]
    pub key_type: KeyType,

    /// How many days it is valid
    #[arg(long, value_name = "N", default_value_t = 3652, value_parser = clap::value_parser!(i64).range(1..=36_500))]
    pub days: i64,

    /// Its name [default: Lucarne local CA, and a number that no other has]
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
}

/// The file.
#[derive(Debug, clap::Args)]
pub struct Inspect {
    /// The directory of a CA, or a PEM file of certificates
    #[arg(value_name = "PATH", default_value = "ca")]
    pub path: PathBuf,
}

/// Where they are.
#[derive(Debug, clap::Args)]
pub struct Directory {
    /// Their directory: what --roots of `lucarne load ct-write` names
    #[arg(value_name = "DIR", default_value = "load-ca")]
    pub directory: PathBuf,
}

/// Does it.
pub(crate) fn run(ca: &Ca) -> ExitCode {
    match ca {
        Ca::New(at) => new(&at.directory),
        Ca::Show(at) => show(&at.directory),
        Ca::Mint(options) => told(mint(options)),
        Ca::Inspect(at) => told(inspect(&at.path)),
    }
}

fn told(done: Result<String>) -> ExitCode {
    match done {
        Ok(text) => {
            out!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("{error:#}")),
    }
}

fn mint(options: &Mint) -> Result<String> {
    let mut wanted = CaOptions::local(options.key_type)?;
    wanted.not_after = Time::now().plus_days(options.days);
    if let Some(name) = &options.name {
        wanted.name = Name::of_ca("XX", "Lucarne", name);
    }
    let directory = CaDirectory::at(&options.directory);
    let (authority, made) = directory.open_or_create(&wanted)?;
    let verb = if made { "made" } else { "kept" };
    let mut text = format!("{verb} {}\n", options.directory.display());
    text += &describe(authority.cert_der())?;
    Ok(text + "\n" + &directory.trust_hints())
}

fn inspect(path: &Path) -> Result<String> {
    if path.is_dir() {
        let directory = CaDirectory::at(path);
        let authority = directory.open()?;
        return Ok(describe(authority.cert_der())? + "\n" + &directory.trust_hints());
    }
    let file = path.display();
    let text = std::fs::read(path).with_context(|| format!("cannot read {file}"))?;
    let certificates = pem::certificates(&text).with_context(|| format!("{file}"))?;
    let mut out = String::new();
    for der in certificates {
        out += &describe(&der).with_context(|| format!("{file}"))?;
    }
    if std::str::from_utf8(&text).is_ok_and(|text| Authority::from_pem(text).is_ok()) {
        out += "  with its private key: keep this file secret\n";
    }
    Ok(out)
}

/// A certificate, in a few lines.
fn describe(der: &[u8]) -> Result<String> {
    let certificate = Certificate::parse(der).context("a certificate cannot be read")?;
    let day = |ms: Option<i64>| {
        let time = ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        time.map_or("unknown".to_owned(), |time| {
            time.strftime("%Y-%m-%d").to_string()
        })
    };
    let fingerprint = Fingerprint::of(der);
    let (from, through) = (day(certificate.not_before()), day(certificate.not_after()));
    let kind = match certificate.is_authority() {
        true => "CA certificate",
        false => "certificate that can issue nothing",
    };
    Ok(format!(
        "  {kind} {}\n  valid from {from} through {through}\n  SHA-256 {fingerprint}\n",
        display_name(certificate.subject()),
    ))
}
