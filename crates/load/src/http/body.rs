//! Bodies of responses: the part that stays in memory, and the limit of all of them together.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use lucarne_settings::values::show_size;

use super::{Headers, Request, kind};
use crate::Failure;

/// Limit of the bytes that are reserved in advance for a body.
pub(super) const RESERVE: usize = 256 << 10;

/// Part of a response's body that stays in memory. The whole body is received and counted in any
/// case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The whole body, up to the limit of the request and of the client.
    #[default]
    All,
    /// The whole body if it has a content coding; otherwise [`Start`](Keep::Start).
    Coded,
    /// Only the first bytes, for messages: up to [`START`](Keep::START). The length of the body
    /// has no limit.
    Start,
}

impl Keep {
    /// Limit of the bytes that [`Keep::Start`] keeps.
    pub const START: usize = 16 << 10;
}

/// Receives the pieces of a response's body as they arrive, with the headers of the response.
pub type BodyReader<'a> = dyn FnMut(&Headers, &[u8]) + Send + 'a;

/// The bodies in memory of several budgets together.
#[derive(Debug, Default)]
pub struct HeldBodies {
    bytes: AtomicUsize,
    /// The largest limit of these budgets.
    most: AtomicUsize,
}

/// Limit of the bodies that are in memory at the same time, for all users together.
#[derive(Debug)]
pub struct BodyBudget {
    most: usize,
    held: Arc<HeldBodies>,
    option: &'static str,
}

impl BodyBudget {
    /// Creates a limit of `most` bytes for a body, which the user can change with `option`. The
    /// largest limit of all budgets with the same `held` limits their bodies together.
    pub fn new(most: usize, option: &'static str, held: Arc<HeldBodies>) -> Arc<Self> {
        held.most.fetch_max(most, Ordering::Relaxed);
        Arc::new(Self { most, held, option })
    }

    /// Returns the bytes of all bodies that are in memory.
    pub fn held(&self) -> usize {
        self.held.bytes.load(Ordering::Relaxed)
    }

    fn exceeded(&self, most: usize) -> BudgetExceeded {
        let option = self.option;
        BudgetExceeded { most, option }
    }
}

/// The bodies in memory would exceed their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the body does not fit into {}, the limit of all bodies in memory together: raise {option}",
    show_size(*.most as u64)
)]
pub struct BudgetExceeded {
    most: usize,
    option: &'static str,
}

/// Memory of one body in a [`BodyBudget`], until this value is dropped.
#[derive(Debug, Default)]
pub struct HeldBody {
    budget: Option<Arc<BodyBudget>>,
    bytes: usize,
}

impl HeldBody {
    /// Creates a body without bytes; without a budget, nothing limits the body.
    pub fn new(budget: Option<Arc<BodyBudget>>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Checks that the body could have `more` bytes if it were alone.
    fn check(&self, more: u64) -> Result<(), BudgetExceeded> {
        match &self.budget {
            Some(budget) if more > budget.most as u64 => Err(budget.exceeded(budget.most)),
            _ => Ok(()),
        }
    }

    /// Adds bytes to the body.
    ///
    /// # Errors
    /// If all bodies together would exceed the limit.
    pub fn grow(&mut self, more: usize) -> Result<(), BudgetExceeded> {
        let Some(budget) = &self.budget else {
            return Ok(());
        };
        self.check((self.bytes as u64).saturating_add(more as u64))?;
        let most = budget.held.most.load(Ordering::Relaxed);
        let room = |held: usize| held.checked_add(more).filter(|sum| *sum <= most);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let grown = budget.held.bytes.fetch_update(set, fetch, room);
        grown.map_err(|_| budget.exceeded(most))?;
        self.bytes += more;
        Ok(())
    }

    /// Returns `bytes`, whose last copy drops this value.
    pub fn attach(self, bytes: impl Into<Bytes>) -> Bytes {
        match self.bytes {
            0 => bytes.into(),
            _ => Bytes::from_owner(Owned(bytes.into(), self)),
        }
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.held.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Bytes with their place in a budget.
struct Owned(
    Bytes,
    #[expect(dead_code, reason = "dropped with the bytes")] HeldBody,
);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Body of a response in progress.
pub(super) struct ReceivedBody<'a> {
    /// Bytes of the body so far.
    pub(super) length: u64,
    /// Whether the body exceeds the limit of the request or of the client.
    pub(super) is_too_long: bool,
    pub(super) kept: BytesMut,
    keep: Keep,
    limit: usize,
    /// The length of the body that the server has announced; 0 if unknown.
    announced: usize,
    held: HeldBody,
    reader: Option<&'a mut BodyReader<'a>>,
}

impl fmt::Debug for ReceivedBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedBody")
            .field("length", &self.length)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

impl<'a> ReceivedBody<'a> {
    /// Creates the body of the response to `request`; `limit` and `budget` are those of the client.
    pub(super) fn new(
        request: &Request<'_>,
        limit: usize,
        budget: Option<&Arc<BodyBudget>>,
        reader: Option<&'a mut BodyReader<'a>>,
    ) -> Self {
        Self {
            keep: request.keep,
            held: HeldBody::new(budget.cloned()),
            reader,
            ..Self::limited(request.limit(limit))
        }
    }

    /// Creates a body that stays in memory, of up to `limit` bytes.
    pub(super) fn limited(limit: usize) -> Self {
        Self {
            length: 0,
            is_too_long: false,
            kept: BytesMut::new(),
            keep: Keep::All,
            limit,
            announced: 0,
            held: HeldBody::default(),
            reader: None,
        }
    }

    /// Decides from the headers which part stays in memory.
    pub(super) fn begin(&mut self, headers: &Headers) {
        if self.keep == Keep::Coded {
            let mut codings = headers.all("content-encoding");
            let coded = codings.any(|coding| !coding.eq_ignore_ascii_case("identity"));
            self.keep = if coded { Keep::All } else { Keep::Start };
        }
    }

    /// Checks that the body may have `more` bytes, which the server has announced, and reserves
    /// memory for up to [`RESERVE`] of them.
    pub(super) fn announce(&mut self, more: u64) -> Result<(), Failure> {
        if self.keep != Keep::All {
            return Ok(());
        }
        if self.length.saturating_add(more) > self.limit as u64 {
            return Err(self.too_long());
        }
        self.held.check(more).map_err(too_much)?;
        let more = usize::try_from(more).unwrap_or(usize::MAX);
        // A later announcement is that of another chunk, after which more may follow.
        self.announced = if self.length == 0 { more } else { 0 };
        self.reserve(more.min(RESERVE))
    }

    /// Reserves room for `more` bytes. Bodies are limited by their memory, not by their length.
    fn reserve(&mut self, more: usize) -> Result<(), Failure> {
        let (capacity, needed) = (self.kept.capacity(), self.kept.len() + more);
        if needed <= capacity {
            return Ok(());
        }
        let doubled = needed.max(2 * capacity);
        let usual = if self.announced < needed {
            doubled
        } else {
            doubled.min(self.announced)
        };
        // With less memory, the body is copied more often.
        let mut sizes = [usual, needed + needed / 4].into_iter();
        let held = &mut self.held;
        let size = match sizes.find(|size| held.grow(size - capacity).is_ok()) {
            Some(size) => size,
            None => {
                held.grow(needed - capacity).map_err(too_much)?;
                needed
            }
        };
        let mut kept = BytesMut::with_capacity(size);
        kept.extend_from_slice(&self.kept);
        self.kept = kept;
        Ok(())
    }

    /// Receives a piece of the body.
    pub(super) fn push(&mut self, headers: &Headers, piece: &[u8]) -> Result<(), Failure> {
        if let Some(reader) = &mut self.reader {
            reader(headers, piece);
        }
        let room = match self.keep {
            Keep::All => self.limit.saturating_sub(self.kept.len()),
            Keep::Coded | Keep::Start => Keep::START.saturating_sub(self.kept.len()),
        };
        if self.keep == Keep::All && piece.len() > room {
            return Err(self.too_long());
        }
        if self.keep == Keep::All {
            self.reserve(piece.len())?;
        }
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        self.length += piece.len() as u64;
        Ok(())
    }

    /// Returns the buffer, with room for `more` bytes, if these bytes need no other buffer; `None`
    /// if some bytes are dropped. The caller counts the bytes in `length`.
    pub(super) fn buffer(&mut self, more: usize) -> Result<Option<&mut BytesMut>, Failure> {
        if self.keep != Keep::All || self.reader.is_some() {
            return Ok(None);
        }
        self.reserve(more)?;
        Ok(Some(&mut self.kept))
    }

    /// Records that the body exceeds its limit, and returns the failure.
    fn too_long(&mut self) -> Failure {
        self.is_too_long = true;
        let most = self.limit;
        Failure::new(kind::BODY, format!("the body is longer than {most} bytes"))
    }

    /// Returns the part that stays in memory.
    pub(super) fn into_bytes(self) -> Bytes {
        self.held.attach(self.kept.freeze())
    }
}

/// Returns the failure of a request whose body does not fit into the memory for bodies.
fn too_much(error: BudgetExceeded) -> Failure {
    Failure::new(kind::MAX_BODY, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(keep: Keep, budget: &Arc<BodyBudget>) -> ReceivedBody<'static> {
        let request = Request::get("/").keep(keep);
        ReceivedBody::new(&request, usize::MAX, Some(budget), None)
    }

    #[test]
    fn bodies_share_their_limit_until_they_are_dropped() {
        let budget = BodyBudget::new(100, "`--max-body`", Arc::default());
        let none = Headers::default();
        let (mut one, mut other) = (received(Keep::All, &budget), received(Keep::All, &budget));
        one.push(&none, &[1; 60]).unwrap();
        let failure = other.push(&none, &[2; 41]).unwrap_err();
        assert_eq!(failure.kind, kind::MAX_BODY);
        assert_eq!(
            failure.detail,
            "the body does not fit into 100B, the limit of all bodies in memory together: raise \
             `--max-body`"
        );
        other.push(&none, &[2; 40]).unwrap();
        let (one, copy) = (one.into_bytes(), other.into_bytes());
        let copies = [copy.clone(), copy];
        assert_eq!((one.len(), budget.held()), (60, 100));
        drop(one);
        assert_eq!(budget.held(), 40);
        let smaller = BodyBudget::new(39, "`--max-body`", budget.held.clone());
        let mut body = received(Keep::All, &smaller);
        body.push(&none, &[3; 39]).unwrap();
        body.push(&none, &[3]).unwrap_err();
        drop(body);
        drop(copies);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn the_memory_of_a_body_counts() {
        let none = Headers::default();
        let budget = BodyBudget::new(100_000, "", Arc::default());
        for announced in [None, Some(70_000)] {
            let mut body = received(Keep::All, &budget);
            if let Some(length) = announced {
                body.announce(length).unwrap();
            }
            for _ in 0..70 {
                body.push(&none, &[4; 1000]).unwrap();
                assert_eq!(budget.held(), body.kept.capacity());
            }
        }
        // The last bytes fit, although twice the memory would not.
        let mut body = received(Keep::All, &budget);
        for _ in 0..100 {
            body.push(&none, &[5; 1000]).unwrap();
        }
        assert_eq!(budget.held(), 100_000);
    }

    #[test]
    fn only_the_start_of_a_dropped_body_is_in_memory() {
        let budget = BodyBudget::new(1 << 20, "", Arc::default());
        let mut body = received(Keep::Start, &budget);
        body.announce(u64::MAX).unwrap();
        for _ in 0..100 {
            body.push(&Headers::default(), &[3; 100_000]).unwrap();
        }
        assert_eq!(body.length, 10_000_000);
        assert_eq!(
            budget.held(),
            0,
            "every request needs the start of its response"
        );
        assert_eq!(body.into_bytes().len(), Keep::START);
    }

    #[test]
    fn a_body_with_a_coding_is_kept_to_decode_it() {
        let budget = BodyBudget::new(1 << 20, "", Arc::default());
        for (headers, expected) in [
            ("content-encoding: gzip\r\n", Keep::All),
            ("content-encoding: identity\r\n", Keep::Start),
            ("", Keep::Start),
        ] {
            let mut body = received(Keep::Coded, &budget);
            body.begin(&Headers::of_lines(headers));
            assert_eq!(body.keep, expected, "{headers}");
        }
    }
}
