//! The location of a lock, as written in the configuration.

use std::fmt;
use std::path::{Path, PathBuf};

use url::Url;

use crate::{LockError, NotBuilt};

/// URL parameters that locate a server and are shown. Other parameters may be secret.
const PUBLIC: [&str; 3] = ["host", "port", "socket"];

/// A location, by kind of database.
#[derive(Debug)]
pub(super) enum DatabaseUrl {
    Sqlite(PathBuf),
    MySql(Url),
    Postgres(Url),
}

/// Formats the location without secrets.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::MySql(url) | Self::Postgres(url) => f.write_str(&location(url)),
        }
    }
}

impl DatabaseUrl {
    /// Returns `true` if this build has the cargo feature of the database.
    fn is_built(&self) -> bool {
        match self {
            Self::Sqlite(_) => cfg!(feature = "sqlite"),
            Self::MySql(_) => cfg!(feature = "mysql"),
            Self::Postgres(_) => cfg!(feature = "postgres"),
        }
    }

    pub(super) fn parse(place: &str) -> Result<Self, LockError> {
        let Some((scheme, rest)) = place.split_once(':') else {
            return sqlite(place);
        };
        let kind = match scheme {
            "mysql" | "mariadb" => Self::MySql,
            "postgres" | "postgresql" => Self::Postgres,
            "sqlite" => return sqlite(rest.strip_prefix("//").unwrap_or(rest)),
            _ if !rest.starts_with("//") => return sqlite(place),
            _ => {
                return Err(unusable(
                    scheme,
                    "this kind of lock is not supported; use the path of an SQLite database, \
                     `mysql://`, `postgres://`, `s3://`, `gs://` or `az://`",
                ));
            }
        };
        // The URL is never shown: an unparsable URL may contain a password.
        let malformed = |reason: &dyn std::fmt::Display| {
            unusable(
                &format!("{scheme}:"),
                &format!(
                    "not a URL like {scheme}://user:password@host/database: {reason}. \
                     Special characters of a password are percent-encoded: `@` is `%40`"
                ),
            )
        };
        let url = Url::parse(place).map_err(|e| malformed(&e))?;
        if url.cannot_be_a_base() {
            return Err(malformed(&"`//` is missing"));
        }
        if url.path().len() < 2 && !url.query_pairs().any(|(key, _)| key == "dbname") {
            return Err(malformed(&"the name of the database is missing"));
        }
        let place = kind(url);
        if place.is_built() {
            Ok(place)
        } else {
            Err(place.left_out())
        }
    }

    /// Returns the error for a database that this build lacks.
    pub(super) fn left_out(&self) -> LockError {
        let (what, feature) = match self {
            Self::Sqlite(_) => ("SQLite", "sqlite"),
            Self::MySql(_) => ("MySQL", "mysql"),
            Self::Postgres(_) => ("PostgreSQL", "postgres"),
        };
        LockError::Unusable {
            location: self.to_string(),
            reason: NotBuilt { what, feature }.to_string(),
        }
    }
}

fn sqlite(path: &str) -> Result<DatabaseUrl, LockError> {
    let absolute = std::path::absolute(Path::new(path));
    let absolute = absolute.map_err(|e| unusable(path, &e.to_string()))?;
    Ok(DatabaseUrl::Sqlite(absolute))
}

/// Returns the URL without passwords and other possible secrets.
pub(super) fn location(url: &Url) -> String {
    let mut shown = url.clone();
    // This fails only for a URL without a host, which is refused later and has nothing to hide.
    let _ = shown.set_password(None);
    shown.set_fragment(None);
    let public: Vec<_> = url
        .query_pairs()
        .filter(|(key, _)| PUBLIC.contains(&key.as_ref()))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    shown.set_query((!public.is_empty()).then(|| public.join("&")).as_deref());
    shown.to_string()
}

/// Adds a password to a URL, which must not have one.
pub(super) fn with_password(mut url: Url, password: &str) -> Result<String, LockError> {
    if url.password().is_some() || url.query_pairs().any(|(key, _)| key == "password") {
        let reason = "the URL has a password, and another one is configured: remove the password from the \
             URL";
        return Err(unusable(&location(&url), reason));
    }
    // A URL for a socket may have no host, and then cannot have a user.
    if url.set_password(Some(password)).is_err() {
        url.query_pairs_mut().append_pair("password", password);
    }
    Ok(url.into())
}

fn unusable(location: &str, reason: &str) -> LockError {
    LockError::Unusable {
        location: location.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(place: &str) -> String {
        DatabaseUrl::parse(place).unwrap().to_string()
    }

    #[test]
    fn places_are_shown_without_secrets() {
        for (place, expected) in [
            ("mysql://u:p@host/db", "mysql://u@host/db"),
            ("mariadb://u:p%40x@host:3307/db", "mariadb://u@host:3307/db"),
            (
                "mysql://u@localhost/db?ssl-key=/k&socket=/run/mysqld.sock",
                "mysql://u@localhost/db?socket=/run/mysqld.sock",
            ),
            (
                "postgres:///db?host=/run/postgresql&user=u&password=p",
                "postgres:///db?host=/run/postgresql",
            ),
            ("postgresql://u:p@[::1]/db#p", "postgresql://u@[::1]/db"),
            ("/a/b:c.db", "/a/b:c.db"),
            ("sqlite:/a/b.db", "/a/b.db"),
            ("sqlite:///a/b.db", "/a/b.db"),
        ] {
            assert_eq!(shown(place), expected);
        }
    }

    #[test]
    fn a_password_is_put_where_there_is_none() {
        let with = |place: &str| match DatabaseUrl::parse(place).unwrap() {
            DatabaseUrl::MySql(url) | DatabaseUrl::Postgres(url) => {
                with_password(url, "p@ss/w:rd %")
            }
            DatabaseUrl::Sqlite(_) => panic!("{place}"),
        };
        assert_eq!(
            with("mysql://u@host:1/db?ssl-mode=VERIFY_IDENTITY").unwrap(),
            "mysql://u:p%40ss%2Fw%3Ard%20%@host:1/db?ssl-mode=VERIFY_IDENTITY"
        );
        let socket = with("postgres:///db?host=/run/postgresql&user=u").unwrap();
        assert!(
            socket.ends_with("&password=p%40ss%2Fw%3Ard+%25"),
            "{socket}"
        );
        for twice in ["mysql://u:q@host/db", "postgres:///db?host=/s&password=q"] {
            let said = with(twice).unwrap_err().to_string();
            assert!(said.contains("remove the password from the URL"), "{said}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused_without_its_password() {
        for place in [
            "oracle://u:secret@host/db",
            "mysql://u:secret@host",
            "mysql:u:secret@host/",
            "postgres://u:secret@host:port/db",
            "postgres://u:secret/x@host/db",
        ] {
            let message = DatabaseUrl::parse(place).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
