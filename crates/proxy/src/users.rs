//! Who may use the proxy: Basic authentication (RFC 7617).

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use http::HeaderValue;
use tokio::sync::Semaphore;

/// Most bcrypt checks at a time: each is milliseconds of CPU, for whoever asks.
const CHECKS: usize = 2;

/// Users and what their passwords are checked against.
#[derive(Debug)]
pub struct Users {
    users: HashMap<String, User>,
    checks: Semaphore,
}

#[derive(Debug)]
struct User {
    secret: Secret,
    /// The digest of the last password that was right: bcrypt takes longer
    /// than the request, and clients send the same one each time.
    known: ArcSwapOption<[u8; 32]>,
}

#[derive(Debug)]
enum Secret {
    /// SHA-256 of the password.
    Plain([u8; 32]),
    /// `{SHA}`: SHA-1 of it.
    Sha1(Vec<u8>),
    /// `$2y$…`
    Bcrypt(String),
}

/// Why a line of users is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsersError {
    /// No colon, or nothing before it.
    #[error("line {0} is not `user:password`")]
    Line(usize),
    /// A hash that is not checked here.
    #[error(
        "line {0} has a hash of a kind that is not supported ({1}): make it with `htpasswd -B` \
         (bcrypt)"
    )]
    Hash(usize, &'static str),
    /// There is nobody.
    #[error("there is no user in it: write one `user:password` a line")]
    Nobody,
}

impl Users {
    /// Of lines as `htpasswd` writes them: `user:$2y$…` (bcrypt, `-B`),
    /// `user:{SHA}…` (`-s`), or `user:password` as it is. Empty lines and
    /// those that begin with `#` say nothing.
    ///
    /// # Errors
    /// The first line that is none of these.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        let mut users = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, secret) = line.split_once(':').ok_or(UsersError::Line(number))?;
            if name.is_empty() || secret.is_empty() {
                return Err(UsersError::Line(number));
            }
            let user = User {
                secret: Secret::parse(secret, number)?,
                known: ArcSwapOption::empty(),
            };
            users.insert(name.to_owned(), user);
        }
        if users.is_empty() {
            return Err(UsersError::Nobody);
        }
        Ok(Users {
            users,
            checks: Semaphore::new(CHECKS),
        })
    }

    /// Whether this `Proxy-Authorization` is of one of them.
    pub async fn admit(self: &Arc<Self>, authorization: Option<&HeaderValue>) -> bool {
        let Some((name, password)) = authorization.and_then(credentials) else {
            return false;
        };
        let given = sha256(password.as_bytes());
        let user = self.users.get(&name);
        let secret = user.map(|user| &user.secret);
        match secret {
            // As much work as for a user that exists.
            None => {
                equal(&given, &[0; 32]);
                false
            }
            Some(Secret::Plain(known)) => equal(&given, known),
            Some(Secret::Sha1(known)) => {
                let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
                equal(digest.as_ref(), known)
            }
            Some(Secret::Bcrypt(hash)) => {
                let known = user.and_then(|user| user.known.load_full());
                if known.is_some_and(|known| equal(&given, &*known)) {
                    return true;
                }
                let right = self.bcrypt(password, hash.clone()).await;
                if let (true, Some(user)) = (right, user) {
                    user.known.store(Some(Arc::new(given)));
                }
                right
            }
        }
    }

    async fn bcrypt(&self, password: String, hash: String) -> bool {
        let Ok(_permit) = self.checks.acquire().await else {
            return false;
        };
        let check = move || bcrypt::verify(password, &hash).unwrap_or(false);
        tokio::task::spawn_blocking(check).await.unwrap_or(false)
    }
}

impl Secret {
    fn parse(text: &str, line: usize) -> Result<Self, UsersError> {
        if let Some(hash) = text.strip_prefix("{SHA}") {
            let hash = base64_simd::STANDARD.decode_to_vec(hash.trim_end());
            let hash = hash.ok().filter(|hash| hash.len() == 20);
            return hash.map(Secret::Sha1).ok_or(UsersError::Line(line));
        }
        if ["$2a$", "$2b$", "$2x$", "$2y$"]
            .iter()
            .any(|kind| text.starts_with(kind))
        {
            return Ok(Secret::Bcrypt(text.trim_end().to_owned()));
        }
        for (prefix, name) in [
            ("$apr1$", "MD5"),
            ("$5$", "SHA-256 crypt"),
            ("$6$", "SHA-512 crypt"),
        ] {
            if text.starts_with(prefix) {
                return Err(UsersError::Hash(line, name));
            }
        }
        Ok(Secret::Plain(sha256(text.as_bytes())))
    }
}

/// User name and password of a `Basic` header.
fn credentials(value: &HeaderValue) -> Option<(String, String)> {
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64_simd::STANDARD.decode_to_vec(encoded.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// In a time that does not tell how much is equal.
fn equal(a: &[u8], b: &[u8]) -> bool {
    verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn admits(users: &str, credentials: &str) -> bool {
        let users = Arc::new(Users::parse(users).unwrap());
        let encoded = base64_simd::STANDARD.encode_to_string(credentials);
        let value = HeaderValue::try_from(format!("Basic {encoded}")).unwrap();
        users.admit(Some(&value)).await
    }

    #[tokio::test]
    async fn every_kind_of_line_admits_its_user_alone() {
        let bcrypt = bcrypt::hash_with_result("secret", 4).unwrap();
        for line in [
            "# users\n\nann:secret".to_owned(),
            "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\r\n".to_owned(),
            format!("ann:{}", bcrypt.format_for_version(bcrypt::Version::TwoY)),
        ] {
            assert!(admits(&line, "ann:secret").await, "{line}");
            for wrong in [
                "ann:Secret",
                "ann:",
                "ann",
                "bob:secret",
                ":secret",
                "ann:secret ",
            ] {
                assert!(!admits(&line, wrong).await, "{line} {wrong}");
            }
        }
    }

    #[tokio::test]
    async fn a_password_that_was_right_does_not_admit_another() {
        let hash = bcrypt::hash("secret", 4).unwrap();
        let users = Arc::new(Users::parse(&format!("ann:{hash}")).unwrap());
        let header = |password: &str| {
            let encoded = base64_simd::STANDARD.encode_to_string(format!("ann:{password}"));
            HeaderValue::try_from(format!("basic {encoded}")).unwrap()
        };
        for (password, right) in [("secret", true), ("wrong", false), ("secret", true)] {
            assert_eq!(
                users.admit(Some(&header(password))).await,
                right,
                "{password}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_not_basic_is_nobody() {
        let users = Arc::new(Users::parse("ann:secret").unwrap());
        for wrong in ["Bearer x", "Basic", "Basic !", "Basic YW5u", ""] {
            let value = HeaderValue::from_static(wrong);
            assert!(!users.admit(Some(&value)).await, "{wrong}");
        }
        assert!(!users.admit(None).await);
    }

    #[test]
    fn lines_that_are_not_understood_are_said() {
        let error = |text| Users::parse(text).unwrap_err();
        assert_eq!(error("# nobody\n"), UsersError::Nobody);
        assert_eq!(error("ann:x\nbob"), UsersError::Line(2));
        assert_eq!(error("ann:$apr1$x$y"), UsersError::Hash(1, "MD5"));
        assert_eq!(error("ann:{SHA}AAAA"), UsersError::Line(1));
    }
}
