//! Policies: the logs and witnesses that a verifier trusts, and the quorum of witnesses that must
//! have cosigned a checkpoint (C2SP tlog-policy, main of 2026-07-22).

use std::collections::HashMap;

use crate::checkpoint::{Checkpoint, CheckpointError, parse_size};
use crate::note::SignedNote;
use crate::vkey::{InvalidSignature, KeyError, KeyType, VerifierKey};

/// The name of the quorum that needs no cosignatures.
const NONE: &[u8] = b"none";

/// A policy, parsed from its file. Names and URLs are opaque bytes, as the specification requires.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::{Cosigner, Policy};
///
/// let a = Cosigner::ed25519("a.example/w", &[7; 32])?;
/// let b = Cosigner::ml_dsa_44("b.example/w", &[8; 32])?;
/// let policy = format!(
///     "witness A {} https://a.example/\nwitness B {}\ngroup one any A B\nquorum one\n",
///     a.verifier(),
///     b.verifier(),
/// );
/// let policy = Policy::parse(policy.as_bytes())?;
/// assert_eq!(policy.witnesses()[0].url.as_deref(), Some(&b"https://a.example/"[..]));
/// assert!(policy.quorum_is_met(|witness| witness.name == b"B"));
/// assert!(!policy.quorum_is_met(|_| false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    logs: Vec<PolicyLog>,
    witnesses: Vec<Witness>,
    /// Groups after the groups that they contain.
    groups: Vec<Group>,
    quorum: Option<Member>,
}

/// A log of a policy.
#[derive(Clone, Debug)]
pub struct PolicyLog {
    /// The log's key, whose name is the origin of the log.
    pub key: VerifierKey,
    /// URL for the use of the application.
    pub url: Option<Vec<u8>>,
}

/// A witness of a policy.
#[derive(Clone, Debug)]
pub struct Witness {
    /// Name of the witness in the policy.
    pub name: Vec<u8>,
    /// The key of the witness.
    pub key: VerifierKey,
    /// URL for the use of the application: usually the submission prefix (C2SP tlog-witness).
    pub url: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Group {
    threshold: usize,
    members: Vec<Member>,
}

/// A witness or a group, by its position in [`Policy`].
#[derive(Clone, Copy, Debug)]
enum Member {
    Witness(usize),
    Group(usize),
}

/// The reasons why a policy does not accept a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// The text of the note is not a checkpoint.
    #[error(transparent)]
    Text(#[from] CheckpointError),
    /// The policy has no log with this origin that has signed the checkpoint.
    #[error("no log of the policy with the origin {0:?} has signed the checkpoint")]
    Log(String),
    /// A signature of a known key is invalid.
    #[error("{name}: {why}")]
    Signature {
        /// Name of the key.
        name: String,
        /// The reason.
        why: InvalidSignature,
    },
    /// Not enough witnesses have cosigned the checkpoint.
    #[error("the cosignatures of {0} witnesses do not meet the quorum of the policy")]
    Quorum(usize),
}

impl Policy {
    /// Parses a policy file.
    pub fn parse(file: &[u8]) -> Result<Self, PolicyError> {
        let mut parser = Parser::default();
        let mut line = 0;
        for text in file.split_inclusive(|byte| *byte == b'\n') {
            line += 1;
            let parsed = parser.line(line, text);
            parsed.map_err(|fault| PolicyError { line, fault })?;
        }
        let Some(quorum) = parser.quorum else {
            let fault = PolicyFault::NoQuorum;
            return Err(PolicyError { line, fault });
        };
        Ok(Self {
            logs: parser.logs,
            witnesses: parser.witnesses,
            groups: parser.groups,
            quorum,
        })
    }

    /// Returns the logs in the order of the file.
    #[must_use]
    pub fn logs(&self) -> &[PolicyLog] {
        &self.logs
    }

    /// Returns the witnesses in the order of the file.
    #[must_use]
    pub fn witnesses(&self) -> &[Witness] {
        &self.witnesses
    }

    /// Returns the policy whose quorum needs the quorums of both policies.
    ///
    /// # Errors
    /// Returns the name of a witness of `other` if this policy has the name or the key already.
    pub fn and(mut self, other: Self) -> Result<Self, Vec<u8>> {
        let is_twice = |new: &&Witness| {
            let mut known = self.witnesses.iter();
            known.any(|it| it.name == new.name || it.key.public_key() == new.key.public_key())
        };
        if let Some(twice) = other.witnesses.iter().find(is_twice) {
            return Err(twice.name.clone());
        }
        let (witnesses, groups) = (self.witnesses.len(), self.groups.len());
        let moved = |member| match member {
            Member::Witness(at) => Member::Witness(at + witnesses),
            Member::Group(at) => Member::Group(at + groups),
        };
        self.logs.extend(other.logs);
        self.witnesses.extend(other.witnesses);
        self.groups
            .extend(other.groups.into_iter().map(|group| Group {
                members: group.members.into_iter().map(moved).collect(),
                ..group
            }));
        let quorums = self.quorum.into_iter().chain(other.quorum.map(moved));
        let members: Vec<_> = quorums.collect();
        let threshold = members.len();
        self.groups.push(Group { threshold, members });
        self.quorum = Some(Member::Group(self.groups.len() - 1));
        Ok(self)
    }

    /// Returns `true` if the witnesses for which `cosigned` is `true` are sufficient.
    pub fn quorum_is_met(&self, cosigned: impl Fn(&Witness) -> bool) -> bool {
        let mut groups: Vec<bool> = Vec::with_capacity(self.groups.len());
        let met = |member: Member, groups: &[bool]| match member {
            Member::Witness(at) => cosigned(&self.witnesses[at]),
            Member::Group(at) => groups[at],
        };
        for group in &self.groups {
            let count = group.members.iter().filter(|member| met(**member, &groups));
            let enough = count.count() >= group.threshold;
            groups.push(enough);
        }
        self.quorum.is_none_or(|member| met(member, &groups))
    }

    /// Verifies that a log of the policy has signed this checkpoint, and that its cosignatures meet
    /// the quorum. Returns the checkpoint.
    ///
    /// # Errors
    /// If the checkpoint is not trusted. An invalid signature of a known key is an error even if
    /// the other signatures are sufficient.
    pub fn verify(&self, note: &SignedNote) -> Result<Checkpoint, Untrusted> {
        let (checkpoint, _) = Checkpoint::parse_extended(&note.text)?;
        let mut signed = false;
        for log in &self.logs {
            signed |= log.key.name() == checkpoint.origin && has_signed(&log.key, note)?;
        }
        if !signed {
            return Err(Untrusted::Log(checkpoint.origin));
        }
        self.verify_cosignatures(note)?;
        Ok(checkpoint)
    }

    /// Verifies that the cosignatures of a checkpoint meet the quorum. The caller has verified the
    /// signature of the log.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    pub fn verify_cosignatures(&self, note: &SignedNote) -> Result<(), Untrusted> {
        let mut cosigned = Vec::new();
        for witness in &self.witnesses {
            if has_signed(&witness.key, note)? {
                cosigned.push(witness.name.as_slice());
            }
        }
        self.quorum_is_met(|witness| cosigned.contains(&witness.name.as_slice()))
            .then_some(())
            .ok_or(Untrusted::Quorum(cosigned.len()))
    }
}

fn has_signed(key: &VerifierKey, note: &SignedNote) -> Result<bool, Untrusted> {
    match key.verify(note) {
        Ok(timestamp) => Ok(timestamp.is_some()),
        Err(why) => Err(Untrusted::Signature {
            name: key.name().to_owned(),
            why,
        }),
    }
}

/// The reason why a file is not a policy, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the policy: {fault}")]
pub struct PolicyError {
    /// Number of the line, from 1. The number of lines, if the whole file is at fault.
    pub line: usize,
    /// The reason.
    pub fault: PolicyFault,
}

/// The reasons why a line is not allowed in a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// A control character other than tab and newline.
    #[error("control characters other than tab and newline are not allowed")]
    ControlCharacter,
    /// The last line may be incomplete.
    #[error("the line does not end with a newline")]
    Unterminated,
    /// The first word is unknown.
    #[error("the line must begin with `log`, `witness`, `group` or `quorum`")]
    Keyword,
    /// Too few or too many words.
    #[error("expected `{0}`")]
    Form(&'static str),
    /// The key is not a verifier key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key has a signature type for another function.
    #[error("a witness needs a key that cosigns: signature type 0x04 or 0x06")]
    NotCosigner,
    /// A second log or witness has the same public key.
    #[error("the public key is already in line {0}")]
    DuplicateKey(usize),
    /// The name is defined twice, or is `none`.
    #[error("the name is `none`, or is already defined")]
    Name,
    /// The name is not defined in a line before this one.
    #[error("`{0}` is not defined in a line above")]
    Undefined(String),
    /// A witness or a group is a member of two groups.
    #[error("`{0}` is already a member of a group")]
    SecondMembership(String),
    /// The threshold of a group is out of range.
    #[error("the threshold must be `all`, `any`, or a number from 1 to {0}, the number of members")]
    Threshold(usize),
    /// There is a second quorum line.
    #[error("the policy already has a quorum line")]
    SecondQuorum,
    /// There is no quorum line.
    #[error("the policy has no quorum line")]
    NoQuorum,
}

const LOG: &str = "log KEY [URL]";
const WITNESS: &str = "witness NAME KEY [URL]";
const GROUP: &str = "group NAME THRESHOLD MEMBER...";
const QUORUM: &str = "quorum NAME";

#[derive(Default)]
struct Parser<'f> {
    logs: Vec<PolicyLog>,
    witnesses: Vec<Witness>,
    groups: Vec<Group>,
    /// `Some(None)` after the line `quorum none`.
    quorum: Option<Option<Member>>,
    names: HashMap<&'f [u8], Name>,
    /// Lines of the public keys of logs and of witnesses.
    log_keys: HashMap<Vec<u8>, usize>,
    witness_keys: HashMap<Vec<u8>, usize>,
}

struct Name {
    member: Member,
    in_group: bool,
}

impl<'f> Parser<'f> {
    fn line(&mut self, number: usize, line: &'f [u8]) -> Result<(), PolicyFault> {
        let line = line.strip_suffix(b"\n").ok_or(PolicyFault::Unterminated)?;
        if line
            .iter()
            .any(|byte| byte.is_ascii_control() && *byte != b'\t')
        {
            return Err(PolicyFault::ControlCharacter);
        }
        let words = line.split(|byte| matches!(byte, b' ' | b'\t'));
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        match words[..] {
            [] => Ok(()),
            [first, ..] if first.starts_with(b"#") => Ok(()),
            [b"log", ref rest @ ..] => self.log(number, rest),
            [b"witness", ref rest @ ..] => self.witness(number, rest),
            [b"group", ref rest @ ..] => self.group(rest),
            [b"quorum", ref rest @ ..] => self.set_quorum(rest),
            _ => Err(PolicyFault::Keyword),
        }
    }

    fn log(&mut self, line: usize, words: &[&'f [u8]]) -> Result<(), PolicyFault> {
        let (key, url) = match words {
            [key] => (key, None),
            [key, url] => (key, Some(url.to_vec())),
            _ => return Err(PolicyFault::Form(LOG)),
        };
        let key = new_key(key, line, &mut self.log_keys)?;
        self.logs.push(PolicyLog { key, url });
        Ok(())
    }

    fn witness(&mut self, line: usize, words: &[&'f [u8]]) -> Result<(), PolicyFault> {
        let (name, key, url) = match words {
            [name, key] => (*name, key, None),
            [name, key, url] => (*name, key, Some(url.to_vec())),
            _ => return Err(PolicyFault::Form(WITNESS)),
        };
        let key = new_key(key, line, &mut self.witness_keys)?;
        if key.key_type() == KeyType::Ed25519 {
            return Err(PolicyFault::NotCosigner);
        }
        self.define(name, Member::Witness(self.witnesses.len()))?;
        let name = name.to_vec();
        self.witnesses.push(Witness { name, key, url });
        Ok(())
    }

    fn group(&mut self, words: &[&'f [u8]]) -> Result<(), PolicyFault> {
        let [name, threshold, members @ ..] = words else {
            return Err(PolicyFault::Form(GROUP));
        };
        if members.is_empty() {
            return Err(PolicyFault::Form(GROUP));
        }
        let threshold = match *threshold {
            b"any" => Some(1),
            b"all" => Some(members.len()),
            number => number_of(number).filter(|count| (1..=members.len()).contains(count)),
        };
        let threshold = threshold.ok_or(PolicyFault::Threshold(members.len()))?;
        let members = members.iter().map(|member| {
            let name = self.defined(member)?;
            if std::mem::replace(&mut name.in_group, true) {
                return Err(PolicyFault::SecondMembership(shown(member)));
            }
            Ok(name.member)
        });
        let members = members.collect::<Result<_, _>>()?;
        self.define(name, Member::Group(self.groups.len()))?;
        self.groups.push(Group { threshold, members });
        Ok(())
    }

    fn set_quorum(&mut self, words: &[&'f [u8]]) -> Result<(), PolicyFault> {
        let [name] = words else {
            return Err(PolicyFault::Form(QUORUM));
        };
        let quorum = match *name {
            NONE => None,
            name => Some(self.defined(name)?.member),
        };
        match self.quorum.replace(quorum) {
            None => Ok(()),
            Some(_) => Err(PolicyFault::SecondQuorum),
        }
    }

    fn define(&mut self, name: &'f [u8], member: Member) -> Result<(), PolicyFault> {
        let in_group = false;
        if name == NONE || self.names.contains_key(name) {
            return Err(PolicyFault::Name);
        }
        self.names.insert(name, Name { member, in_group });
        Ok(())
    }

    fn defined(&mut self, name: &[u8]) -> Result<&mut Name, PolicyFault> {
        let found = self.names.get_mut(name);
        found.ok_or_else(|| PolicyFault::Undefined(shown(name)))
    }
}

/// Parses a verifier key and adds its public key to `keys`.
fn new_key(
    word: &[u8],
    line: usize,
    keys: &mut HashMap<Vec<u8>, usize>,
) -> Result<VerifierKey, PolicyFault> {
    let text = std::str::from_utf8(word).map_err(|_| KeyError::Parts)?;
    let key: VerifierKey = text.parse()?;
    match keys.insert(key.public_key().to_vec(), line) {
        None => Ok(key),
        Some(first) => Err(PolicyFault::DuplicateKey(first)),
    }
}

fn number_of(word: &[u8]) -> Option<usize> {
    let number = parse_size(std::str::from_utf8(word).ok()?)?;
    usize::try_from(number).ok()
}

fn shown(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}
