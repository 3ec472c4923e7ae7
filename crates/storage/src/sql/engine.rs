//! The trait [`Engine`] of a kind of database server, and the meaning of its failures.

use async_trait::async_trait;
use lucarne_net::{Trust, explain, shows_authority, tls_error};
use lucarne_x509::pem;
use sqlx::error::DatabaseError;
use url::Url;

use super::dialect::Dialect;
use crate::LogId;

/// A kind of database server.
#[async_trait]
pub(super) trait Engine: Sized + Send + Sync + 'static {
    type Connection: sqlx::Connection;

    /// The server's description of a column of the table.
    type Column: Send + Sync;

    const DIALECT: Dialect;

    fn new(url: &Url) -> Result<Self, sqlx::Error>;

    /// Opens a connection on which commits are durable. The settings are checked each time, because
    /// a server may have other settings after a restart.
    async fn connect(&self) -> Result<Self::Connection, Failure>;

    /// Returns the columns of the table; empty if there is no table.
    async fn columns(connection: &mut Self::Connection) -> Result<Vec<Self::Column>, sqlx::Error>;

    /// Returns `true` if a table with these columns compares bytes, has one row per log, and
    /// survives a crash.
    fn fits(columns: &[Self::Column]) -> bool;

    /// Fails for a table of another kind; returns `None` if there is no table.
    async fn examine(connection: &mut Self::Connection) -> Result<Option<()>, Failure> {
        let columns = Self::columns(connection).await?;
        if columns.is_empty() {
            return Ok(None);
        }
        if Self::fits(&columns) {
            Ok(Some(()))
        } else {
            Err(Unfit::Table {
                expected: Self::DIALECT.schema,
            }
            .into())
        }
    }

    async fn load(
        connection: &mut Self::Connection,
        log: &LogId,
    ) -> Result<Option<Vec<u8>>, sqlx::Error>;

    /// Returns the time of the server in Unix seconds.
    async fn now(connection: &mut Self::Connection) -> Result<i64, sqlx::Error>;

    /// Executes a statement and returns the number of matching rows.
    async fn execute(
        connection: &mut Self::Connection,
        statement: &'static str,
        parameters: &[&[u8]],
    ) -> Result<u64, sqlx::Error>;

    /// Classifies an error that the server returned.
    fn judge(error: &dyn DatabaseError) -> Diagnosis;

    fn diagnose(error: &sqlx::Error) -> Diagnosis {
        match error {
            sqlx::Error::Database(error) => Self::judge(&**error),
            sqlx::Error::Configuration(_) => Diagnosis::Refused(""),
            sqlx::Error::Tls(_) => Diagnosis::Refused(advice::TLS),
            sqlx::Error::Io(error) if is_tls(error) => Diagnosis::Refused(advice::TLS),
            _ => Diagnosis::Away,
        }
    }
}

/// Returns `true` if the URL has its own certificate authority for the server.
pub(super) fn names_authority(url: &Url) -> bool {
    let names = ["ssl-ca", "sslca", "sslrootcert", "ssl-root-cert"];
    url.query_pairs()
        .any(|(key, _)| names.contains(&key.as_ref()))
}

/// Returns the certificate authorities of this machine in PEM, as sqlx expects them.
pub(super) fn trusted_pem() -> Vec<u8> {
    let trust = Trust::system();
    let blocks = trust
        .certificates()
        .iter()
        .map(|der| pem::encode("CERTIFICATE", der));
    blocks.collect::<String>().into_bytes()
}

/// The reasons why an attempt to use a server failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server or the table has the wrong settings.
    Unfit(Unfit),
    Sql(sqlx::Error),
    /// There was no response in time.
    Silence,
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// The wrong settings of a server or a table. Each text has the remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("Lucarne cannot use its table `checkpoints`; expected: {expected}")]
    Table { expected: &'static str },
    #[error("the lock is closed")]
    Closed,
    #[cfg(feature = "mysql")]
    #[error(
        "the server has innodb_flush_log_at_trx_commit = {found}: it loses commits in a power \
         failure, and a log can fork if its lock loses a commit. Set \
         innodb_flush_log_at_trx_commit to 1 in the server's configuration, and run: SET GLOBAL \
         innodb_flush_log_at_trx_commit = 1"
    )]
    Flush { found: i64 },
    #[cfg(feature = "mysql")]
    #[error(
        "the server has a binary log with sync_binlog = {found}: it loses commits in a power \
         failure, and a log can fork if its lock loses a commit. Set sync_binlog to 1 in the \
         server's configuration, and run: SET GLOBAL sync_binlog = 1"
    )]
    BinaryLog { found: i64 },
    #[cfg(feature = "postgres")]
    #[error(
        "the server has fsync = off: it loses commits in a power failure, and a log can fork if \
         its lock loses a commit. Set fsync = on in the server's configuration, and restart the \
         server"
    )]
    Fsync,
    #[cfg(feature = "mysql")]
    #[error("TesseraCT's tables have version {found}: only version {supported} is supported")]
    TesseraVersion { found: u64, supported: u64 },
    #[cfg(feature = "mysql")]
    #[error("TesseraCT's tables have no log: TesseraCT was never started with these tables")]
    NoTesseraLog,
}

/// The meaning of a server's error.
pub(super) enum Diagnosis {
    /// The connection or the server is unavailable.
    Away,
    /// The statement had no effect, and the next attempt may succeed.
    Again,
    /// The statement had no effect; the text is the remedy, or empty.
    Refused(&'static str),
}

/// Returns `true` if rustls rejected the server: the next attempt would fail in the same way.
fn is_tls(error: &std::io::Error) -> bool {
    use rustls::Error::{InvalidCertificate, PeerIncompatible};
    matches!(
        tls_error(error),
        Some(InvalidCertificate(_) | PeerIncompatible(_))
    )
}

/// Returns `true` if the next attempt may succeed.
pub(super) fn passing<E: Engine>(failure: &Failure) -> bool {
    match failure {
        Failure::Unfit(_) => false,
        Failure::Silence => true,
        Failure::Sql(error) => !matches!(E::diagnose(error), Diagnosis::Refused(_)),
    }
}

/// Describes the failure and the remedy for the usual cases.
pub(super) fn message<E: Engine>(failure: &Failure) -> String {
    match failure {
        Failure::Unfit(unfit) => unfit.to_string(),
        Failure::Silence => "no response: the server hangs or is overloaded, or the network \
                             drops packets. Check the server first"
            .into(),
        Failure::Sql(error) => {
            let said = match (error, tls_error(error)) {
                (sqlx::Error::Database(error), _) => error.message().to_owned(),
                (_, Some(reason)) if shows_authority(reason) => advice::AUTHORITY.to_owned(),
                (_, Some(reason)) => explain(reason),
                (error, None) => error.to_string(),
            };
            match E::diagnose(error) {
                Diagnosis::Refused("") | Diagnosis::Again => said,
                Diagnosis::Refused(advice) => format!("{said}; {advice}"),
                Diagnosis::Away => {
                    format!(
                        "{said}; is the server running, and is the URL in `checkpoints` \
                             correct?"
                    )
                }
            }
        }
    }
}

/// Remedies for both kinds of server.
pub(super) mod advice {
    pub(in super::super) const LOGIN: &str = "the URL in `checkpoints` has a wrong user or password, or the server does not let this \
         user in from here. Special characters of a password are percent-encoded in a URL";
    pub(in super::super) const TLS: &str = "the URL in `checkpoints` names the authorities whose certificates are trusted \
         (`ssl-ca=…`, `sslrootcert=…`; else the system's), and a host that must be in the \
         server's certificate. A certificate that is trusted itself must not be that of a CA: \
         create it with `-addext basicConstraints=critical,CA:FALSE` (openssl req -x509)";
    pub(super) const AUTHORITY: &str = "the server's certificate is that of a CA \
                                                  (CA:TRUE): the database driver refuses it, \
                                                  whether the certificate is trusted or not";
    pub(in super::super) const NO_DATABASE: &str = "an administrator creates the database with \
                                                    CREATE DATABASE. If logs were created with it \
                                                    before, this is the wrong server: do not \
                                                    create the database again";
    pub(in super::super) const NO_TABLE: &str = "the table was removed while in use: restore the \
                                                 newest copy of the table, and never create \
                                                 the table again";
    pub(in super::super) const RIGHTS: &str = "this user needs the privileges SELECT, INSERT and \
                                               UPDATE on the table `checkpoints`, and CREATE to \
                                               create it";
    pub(in super::super) const READ_ONLY: &str = "this server is read-only: it is a replica, or \
                                                  is configured as read-only. The URL in \
                                                  `checkpoints` must lead to the primary";
    pub(in super::super) const FULL: &str = "free space on the server's disk";
    pub(in super::super) const HELD: &str =
        "another session of the server holds the row: find and end it";
}

#[cfg(test)]
mod tests {
    use std::io;

    use lucarne_net::Verifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;
    use crate::sql::mysql::MySql;
    use crate::sql::postgres::Postgres;

    /// Other clients accept the certificate of a CA that is named as trusted.
    #[test]
    fn the_certificate_of_an_authority_is_refused_in_words_that_are_true() {
        let der = |name: &str| {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../net/src/tls/testdata");
            CertificateDer::from_pem_file(format!("{root}/{name}.pem")).unwrap()
        };
        // The verdict of webpki, which sqlx passes on.
        let verifier = Verifier::trusting(Trust::none().with([der("ca")]).unwrap());
        let name = ServerName::try_from("localhost").unwrap();
        let refused =
            verifier.verify_server_cert(&der("ca-true"), &[], &name, &[], UnixTime::now());
        let refused = io::Error::new(io::ErrorKind::InvalidData, refused.unwrap_err());
        let failure = Failure::Sql(sqlx::Error::Io(refused));
        let said = message::<Postgres>(&failure);
        assert!(said.contains("(CA:TRUE): the database driver"), "{said}");
        assert!(said.contains("CA:FALSE"), "{said}");
        assert!(!said.contains("not itself trusted"), "{said}");
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_not_waited_for() {
        let lost = io::Error::new(io::ErrorKind::InvalidData, "cut off");
        let untrusted = rustls::CertificateError::UnknownIssuer;
        let untrusted = rustls::Error::InvalidCertificate(untrusted);
        let untrusted = io::Error::new(io::ErrorKind::InvalidData, untrusted);
        let cases = [
            (sqlx::Error::Io(untrusted), false),
            (
                sqlx::Error::Tls("server does not support TLS".into()),
                false,
            ),
            (sqlx::Error::Io(lost), true),
        ];
        for (error, waits) in cases {
            let failure = Failure::Sql(error);
            assert_eq!(passing::<MySql>(&failure), waits, "{failure:?}");
            assert_eq!(passing::<Postgres>(&failure), waits, "{failure:?}");
            let said = message::<MySql>(&failure);
            assert_eq!(said.contains("ssl-ca"), !waits, "{said}");
        }
    }
}
