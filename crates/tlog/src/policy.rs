//! Policies: the logs and witnesses that a verifier trusts, and the quorum of witnesses that must
//! have cosigned a checkpoint (C2SP tlog-policy, main of 2026-07-22).

mod parse;

pub use parse::{PolicyError, PolicyFault};

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::note::SignedNote;
use crate::vkey::{InvalidSignature, VerifierKey};

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
