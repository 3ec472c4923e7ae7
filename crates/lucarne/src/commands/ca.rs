//! `lucarne ca`: certificate authorities that issue for load tests or for a proxy.

#[cfg(feature = "load")]
mod issuing;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use lucarne_ct::{Certificate, display_name};
use lucarne_mint::store::Fingerprint;
use lucarne_mint::{Authority, CaDirectory, CaOptions, KeyType, Name, Time, pem};

#[cfg(feature = "load")]
use self::issuing::{new, show};
use super::failed;
#[cfg(not(feature = "load"))]
use super::without_load::ca::{new, show};
use crate::causes::causes;

/// Subcommands of `lucarne ca`.
#[derive(Debug, clap::Subcommand)]
pub enum Ca {
    /// Create the authorities of load tests, once, so that a log can accept their roots
    ///
    /// Creates an RSA and a P-384 root, intermediates with RSA, P-256 and P-384 keys, and one below
    /// a cross-signed root. Keeps existing files. Key files are readable only by their owner;
    /// `roots.pem` contains only certificates.
    New(Directory),

    /// Print the roots in PEM, for the configuration of a log
    Show(Directory),

    /// Create a CA that issues certificates for a proxy, or for `serve --testcert`
    ///
    /// Writes the certificate for clients to ca.pem, and the private key to ca-key.pem (mode 0600).
    /// Prints how to trust the CA. Keeps existing files.
    Mint(Mint),

    /// Describe a CA and how to trust it
    ///
    /// Prints name, validity and fingerprint of each certificate.
    Inspect(Inspect),
}

/// Options of `lucarne ca mint`.
#[derive(Debug, clap::Args)]
pub struct Mint {
    /// Directory of the CA, as in --ca of `lucarne proxy`
    #[arg(value_name = "DIR", default_value = "ca")]
    pub directory: PathBuf,

    /// Type of the key: p256, p384, rsa2048, rsa4096, ed25519
    #[arg(long, value_name = "KIND", default_value = "p256")]
    pub key_type: KeyType,

    /// Validity in days
    #[arg(long, value_name = "N", default_value_t = 3652, value_parser = clap::value_parser!(i64).range(1..=36_500))]
    pub days: i64,

    /// Name of the CA [default: Lucarne local CA, and a unique number]
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
}

/// Options of `lucarne ca inspect`.
#[derive(Debug, clap::Args)]
pub struct Inspect {
    /// Directory of a CA, or a PEM file of certificates
    #[arg(value_name = "PATH", default_value = "ca")]
    pub path: PathBuf,
}

/// Directory of the authorities.
#[derive(Debug, clap::Args)]
pub struct Directory {
    /// Directory of the authorities, as in --roots of `lucarne load ct-write`
    #[arg(value_name = "DIR", default_value = "load-ca")]
    pub directory: PathBuf,
}

pub(crate) fn run(ca: &Ca) -> ExitCode {
    match ca {
        Ca::New(at) => new(&at.directory),
        Ca::Show(at) => show(&at.directory),
        Ca::Mint(options) => report(mint(options)),
        Ca::Inspect(at) => report(inspect(&at.path)),
    }
}

fn report(done: Result<String>) -> ExitCode {
    match done {
        Ok(text) => {
            out!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(causes(&error)),
    }
}

fn mint(options: &Mint) -> Result<String> {
    let mut wanted = CaOptions::local(options.key_type)?;
    wanted.not_after = Time::now().plus_days(options.days);
    if let Some(name) = &options.name {
        // RFC 5280, appendix A.1: ub-common-name.
        if !(1..=64).contains(&name.chars().count()) || name.contains(char::is_control) {
            bail!("--name: expected 1 to 64 characters without control characters");
        }
        wanted.name = Name::of_ca("XX", "Lucarne", name);
    }
    let directory = CaDirectory::at(&options.directory);
    let (authority, made) = directory.open_or_create(&wanted)?;
    let verb = if made { "created" } else { "kept" };
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
    let certificates = pem::certificates(&text)
        .with_context(|| format!("cannot read the certificates in {file}"))?;
    let mut out = String::new();
    for (number, der) in (1..).zip(&certificates) {
        out += &describe(der).with_context(|| format!("{file}: certificate {number}"))?;
    }
    if std::str::from_utf8(&text).is_ok_and(|text| Authority::from_pem(text).is_ok()) {
        out += "  with its private key: keep this file secret\n";
    }
    Ok(out)
}

/// Describes a certificate in three lines.
fn describe(der: &[u8]) -> Result<String> {
    let certificate = Certificate::parse(der).context("the certificate cannot be parsed")?;
    let day = |ms: Option<i64>| {
        let time = ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        time.map_or("unknown".to_owned(), |time| {
            time.strftime("%Y-%m-%d").to_string()
        })
    };
    let fingerprint = Fingerprint::of(der);
    let (from, through) = (day(certificate.not_before()), day(certificate.not_after()));
    let kind = if certificate.is_authority() {
        "CA certificate"
    } else {
        "certificate that can issue nothing"
    };
    Ok(format!(
        "  {kind} {}\n  valid from {from} through {through}\n  SHA-256 {fingerprint}\n",
        display_name(certificate.subject()),
    ))
}
