//! Users of the proxy: Basic authentication (RFC 7617).

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use bcrypt::HashParts;
use http::HeaderValue;
use lucarne_ct::sha256;
use parking_lot::Mutex;

use crate::checks::{Checks, Key};
use crate::failure::Failure;

/// Time that a correct password is remembered after its last use. bcrypt takes longer than the
/// request, and clients send the same password each time.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Highest cost of bcrypt: one check takes about a second, and checks wait at most five seconds for
/// their turn.
const MAX_COST: u32 = 14;
/// Number of bytes of a password that bcrypt reads.
const BCRYPT_BYTES: usize = 72;

/// Users with the hashes of their passwords.
#[derive(Debug)]
pub struct Users {
    users: HashMap<String, Arc<User>>,
    /// Highest bcrypt cost of all users; `None` if no user has bcrypt.
    cost: Option<u32>,
    /// Key of the hashes of remembered passwords. The key exists only in this process.
    secret: hmac::Key,
    checks: Arc<Checks>,
    /// Rounds of bcrypt so far: 2^cost for each check.
    #[cfg(test)]
    rounds: Arc<std::sync::atomic::AtomicU64>,
}

#[derive(Debug)]
struct User {
    secret: Secret,
    /// The last correct password, and the time of its last use.
    known: Mutex<Option<(Key, Instant)>>,
}

#[derive(Clone, Debug)]
enum Secret {
    /// SHA-256 of a plain password.
    Plain([u8; 32]),
    /// SHA-1 of the password (`{SHA}`).
    Sha1(Vec<u8>),
    /// bcrypt hash (`$2y$…`), and its cost.
    Bcrypt(String, u32),
}

/// Reasons why a file of users is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsersError {
    /// The line has no colon, no user name or no password.
    #[error("line {0} is not `user:password`")]
    Line(usize),
    /// An earlier line has the same user.
    #[error("line {0} repeats the user of an earlier line: remove one of the two lines")]
    Repeated(usize),
    /// The kind of hash is not supported.
    #[error(
        "line {0} has an unsupported kind of hash ({1}): create the hash with `htpasswd -B` \
         (bcrypt)"
    )]
    Hash(usize, &'static str),
    /// The password begins like a hash of an unknown kind. The text does not contain its beginning,
    /// which may be a part of a plain password.
    #[error(
        "line {0} begins like a hash of an unsupported kind (`$…$` or `{{…}}`): create the hash of \
         the password with `htpasswd -B` (bcrypt), also for a plain password that begins so"
    )]
    Marker(usize),
    /// The password looks like a hash of DES crypt, which has no mark.
    #[error(
        "line {0} looks like a hash of DES crypt (`htpasswd -d`), which is not supported: create \
         the hash of the password with `htpasswd -B` (bcrypt), also for a plain password of this \
         form"
    )]
    Des(usize),
    /// The hash cannot be parsed.
    #[error(
        "line {0} has a hash that is truncated or malformed: recreate the hash with `htpasswd -B`"
    )]
    Malformed(usize),
    /// Checking the hash takes too long.
    #[error(
        "line {0} has a bcrypt hash of cost {1}, which takes too long to check: recreate the hash \
         with a cost of at most {MAX_COST} (`htpasswd -B -C 10`)"
    )]
    Cost(usize, u32),
    /// The system provides no random bytes.
    #[error("the system provides no random bytes")]
    Randomness,
    /// The file has no user.
    #[error("the file has no user: write one `user:password` per line")]
    Nobody,
}

impl Users {
    /// Parses lines in the format of `htpasswd`: `user:$2y$…` (bcrypt, `-B`), `user:{SHA}…` (`-s`),
    /// or `user:password`. Empty lines and lines that begin with `#` are ignored. A plain password
    /// must not begin like a hash (`$…$`, `{…}`).
    ///
    /// # Errors
    /// If a line is invalid, if there is no user, or if the system provides no random bytes.
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
                known: Mutex::default(),
            };
            if users.insert(name.to_owned(), Arc::new(user)).is_some() {
                return Err(UsersError::Repeated(number));
            }
        }
        if users.is_empty() {
            return Err(UsersError::Nobody);
        }
        let secret = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Ok(Users {
            cost: users.values().filter_map(|user| user.secret.cost()).max(),
            users,
            secret: secret.map_err(|_| UsersError::Randomness)?,
            checks: Arc::default(),
            #[cfg(test)]
            rounds: Arc::default(),
        })
    }

    /// Admits the client at this address, and returns the name of the user, if
    /// `Proxy-Authorization` has the password of a user.
    ///
    /// A recently correct password is not checked again. If any user has a bcrypt hash, every wrong
    /// password costs the same bcrypt time, whether the user exists or not, and for any kind
    /// of hash. So response times do not reveal user names.
    ///
    /// # Errors
    /// [`Failure::Authentication`] for wrong credentials; [`Failure::Checks`] if too many passwords
    /// wait for their check.
    pub async fn admit(
        self: &Arc<Self>,
        client: IpAddr,
        authorization: Option<&HeaderValue>,
    ) -> Result<String, Failure> {
        let Some((name, password)) = authorization.and_then(credentials) else {
            return Err(Failure::Authentication);
        };
        let key = self.key(&name, &password);
        let user = self.users.get(&name).cloned();
        let right = match &user {
            Some(user) => user.knows(&key, Instant::now()) || user.secret.is_plainly(&password),
            None => false,
        };
        if right {
            return Ok(name);
        }
        let Some(highest) = self.cost else {
            return Err(Failure::Authentication);
        };
        let check = self.check(user, password, key, highest);
        match self.checks.run(client, key, check).await {
            Ok(true) => Ok(name),
            Ok(false) => Err(Failure::Authentication),
            Err(full) => Err(Failure::Checks(full)),
        }
    }

    /// Returns the key under which a password is remembered.
    fn key(&self, name: &str, password: &str) -> Key {
        let mut context = hmac::Context::with_key(&self.secret);
        context.update(&(name.len() as u64).to_be_bytes());
        context.update(name.as_bytes());
        context.update(password.as_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    /// Returns a check by bcrypt. A wrong password costs 2^`highest` rounds in total. If the user's
    /// own hash has a lower cost c, further hashes add the difference: 2^c + (2^c + 2^(c+1) + …
    /// + 2^(highest-1)) is 2^highest.
    fn check(
        &self,
        user: Option<Arc<User>>,
        mut password: String,
        key: Key,
        highest: u32,
    ) -> impl FnOnce() -> bool + Send + 'static {
        #[cfg(test)]
        let rounds = self.rounds.clone();
        let count = move |_cost: u32| {
            #[cfg(test)]
            rounds.fetch_add(1 << _cost, std::sync::atomic::Ordering::SeqCst);
        };
        let end = password.floor_char_boundary(BCRYPT_BYTES + 3);
        password.truncate(end);
        move || {
            let mut missing = highest..highest + 1;
            if let Some(user) = user
                && let Secret::Bcrypt(hash, cost) = &user.secret
            {
                count(*cost);
                if bcrypt::verify(&password, hash).unwrap_or(false) {
                    *user.known.lock() = Some((key, Instant::now()));
                    return true;
                }
                missing = *cost..highest;
            }
            // Prepares the bytes as bcrypt does: an empty password is one zero byte.
            let mut bytes = password.into_bytes();
            bytes.push(0);
            bytes.truncate(BCRYPT_BYTES);
            for cost in missing {
                count(cost);
                std::hint::black_box(bcrypt::bcrypt(cost, [0; 16], &bytes));
            }
            false
        }
    }
}

impl User {
    /// Returns whether this is the remembered password, and renews its time.
    fn knows(&self, key: &Key, now: Instant) -> bool {
        let mut known = self.known.lock();
        match &mut *known {
            Some((right, used)) if now.saturating_duration_since(*used) < REMEMBERED => {
                let same = equal(key, right);
                if same {
                    *used = now;
                }
                same
            }
            _ => {
                *known = None;
                false
            }
        }
    }
}

impl Secret {
    fn parse(text: &str, line: usize) -> Result<Self, UsersError> {
        let sha = text.split_at_checked("{SHA}".len());
        // Names of schemes are not case-sensitive (RFC 2307, section 5.3).
        if let Some((_, hash)) = sha.filter(|(kind, _)| kind.eq_ignore_ascii_case("{SHA}")) {
            let hash = base64_simd::STANDARD.decode_to_vec(hash.trim_end());
            let hash = hash.ok().filter(|hash| hash.len() == 20);
            return hash.map(Secret::Sha1).ok_or(UsersError::Malformed(line));
        }
        if ["$2a$", "$2b$", "$2x$", "$2y$"]
            .iter()
            .any(|kind| text.starts_with(kind))
        {
            let hash = text.trim_end();
            let parts = HashParts::from_str(hash).map_err(|_| UsersError::Malformed(line))?;
            return match parts.get_cost() {
                cost @ 4..=MAX_COST => Ok(Secret::Bcrypt(hash.to_owned(), cost)),
                ..4 => Err(UsersError::Malformed(line)),
                cost => Err(UsersError::Cost(line, cost)),
            };
        }
        for (prefix, name) in [
            ("$apr1$", "MD5"),
            ("$1$", "MD5 crypt"),
            ("$5$", "SHA-256 crypt"),
            ("$6$", "SHA-512 crypt"),
            ("$7$", "scrypt"),
            ("$y$", "yescrypt"),
            ("$argon2", "Argon2"),
            ("{SSHA", "salted SHA"),
            ("{MD5}", "MD5"),
            ("{SMD5}", "salted MD5"),
            ("{CRYPT}", "crypt"),
            ("{PBKDF2", "PBKDF2"),
            ("{PLAIN}", "PLAIN"),
        ] {
            if text.starts_with(prefix) {
                return Err(UsersError::Hash(line, name));
            }
        }
        if begins_like_hash(text) {
            return Err(UsersError::Marker(line));
        }
        if is_like_des(text) {
            return Err(UsersError::Des(line));
        }
        Ok(Secret::Plain(sha256(&[text.as_bytes()])))
    }

    /// Returns the cost of a bcrypt hash.
    fn cost(&self) -> Option<u32> {
        match self {
            Secret::Bcrypt(_, cost) => Some(*cost),
            Secret::Plain(_) | Secret::Sha1(_) => None,
        }
    }

    /// Returns whether the password matches a hash that is quick to check.
    fn is_plainly(&self, password: &str) -> bool {
        match self {
            Secret::Plain(known) => equal(&sha256(&[password.as_bytes()]), known),
            Secret::Sha1(known) => {
                let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
                equal(digest.as_ref(), known)
            }
            Secret::Bcrypt(..) => false,
        }
    }
}

/// Returns whether a password has the form of a hash of DES crypt: 13 characters, or `_` and 19
/// characters in the extended form of BSD. The hash itself must not become a valid password.
fn is_like_des(text: &str) -> bool {
    let hash = text.trim_end();
    let letters = match hash.strip_prefix('_') {
        Some(extended) if extended.len() == 19 => extended,
        _ if hash.len() == 13 => hash,
        _ => return false,
    };
    let is_own = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
    letters.bytes().all(is_own)
}

/// Returns whether a password begins like a hash: with `$id$` (crypt and PHC format) or with
/// `{SCHEME}` (RFC 2307). The hash itself must not become a valid password.
fn begins_like_hash(text: &str) -> bool {
    let marked = match text.as_bytes().first() {
        Some(b'$') => text[1..].split_once('$'),
        Some(b'{') => text[1..].split_once('}'),
        _ => None,
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.,=/".contains(letter);
    marked.is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_name))
}

/// Parses user name and password from a `Basic` header.
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

/// Compares in constant time.
fn equal(a: &[u8], b: &[u8]) -> bool {
    verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests;
