//! Whether promises are kept by the tree that covers them.

use std::collections::VecDeque;
use std::time::Instant;

use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use parking_lot::Mutex;

use super::Follower;
use crate::ct::checks::{self, Finding, Verdicts};
use crate::ct::entries;
use crate::ct::fetch::{self, Fetch, Trouble};
use crate::ct::promises::{Promise, Promises};

impl Follower {
    /// Looks up the promises that the verified tree covers. One that is not kept at its
    /// index and whose entry is not near it either may still come: what is said of it
    /// must not depend on how quickly the log is followed, and is said when it is due at
    /// `now`.
    ///
    /// # Errors
    /// No answer: what was not looked up stays promised.
    pub async fn settle<F: Fetch>(
        &mut self,
        fetch: &mut F,
        promises: &Mutex<Promises>,
        now: Instant,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        let mut covered: VecDeque<Promise> = promises.lock().covered(self.size()).into();
        while let Some(promise) = covered.front().cloned() {
            match self.look_up(fetch, &promise).await {
                Ok(Fate::Kept) => {
                    self.kept(&promise, verdicts);
                    promises.lock().settled(&promise, true);
                }
                Ok(Fate::Elsewhere(finding)) => {
                    verdicts.found(finding);
                    in_time(&promise, verdicts);
                    promises.lock().settled(&promise, false);
                }
                Ok(Fate::Nowhere) => promises.lock().set_aside(promise),
                Err(Trouble::Found(finding)) => {
                    verdicts.found(finding);
                    in_time(&promise, verdicts);
                    promises.lock().settled(&promise, false);
                }
                Err(unreachable) => {
                    promises.lock().put_back(covered);
                    return Err(unreachable);
                }
            }
            covered.pop_front();
        }
        self.settle_aside(fetch, promises, now, verdicts).await
    }

    /// The last word on promises that are not kept at their index, and are due.
    async fn settle_aside<F: Fetch>(
        &mut self,
        fetch: &mut F,
        promises: &Mutex<Promises>,
        now: Instant,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        let mut aside: VecDeque<Promise> = promises.lock().take_aside(now).into();
        while let Some(promise) = aside.front().cloned() {
            let (index, size) = (promise.index, self.size());
            match self.search(fetch, &promise).await {
                Ok(Some(finding)) | Err(Trouble::Found(finding)) => verdicts.found(finding),
                Ok(None) => {
                    let detail = format!(
                        "what was promised at index {index} is not there, nor near it (tree of {size})"
                    );
                    verdicts.found(Finding::new(checks::INCLUSION_ENTRY, detail));
                }
                Err(unreachable) => {
                    let mut promises = promises.lock();
                    aside.into_iter().for_each(|it| promises.set_aside(it));
                    return Err(unreachable);
                }
            }
            in_time(&promise, verdicts);
            promises.lock().settled(&promise, false);
            aside.pop_front();
        }
        Ok(())
    }

    /// A promise is kept: at its index, covered by a checkpoint that is not older.
    fn kept(&self, promise: &Promise, verdicts: &dyn Verdicts) {
        for name in [
            checks::INCLUSION_ENTRY,
            checks::INCLUSION_INDEX,
            checks::INCLUSION_TIMESTAMP,
        ] {
            verdicts.passed(name);
        }
        let what = || format!("entry {}", promise.index);
        self.not_older(promise.timestamp, what, verdicts);
        in_time(promise, verdicts);
    }

    async fn look_up<F: Fetch>(&self, fetch: &mut F, promise: &Promise) -> Result<Fate, Trouble> {
        let row = self.row(fetch, promise.index / TILE_WIDTH).await?;
        match row.get((promise.index % TILE_WIDTH) as usize) {
            Some(leaf) if *leaf == promise.leaf => Ok(Fate::Kept),
            _ => Ok(match self.search(fetch, promise).await? {
                Some(finding) => Fate::Elsewhere(finding),
                None => Fate::Nowhere,
            }),
        }
    }

    /// Where a promise that is not kept at its index has gone: the tiles around it are
    /// searched for the entry.
    async fn search<F: Fetch>(
        &self,
        fetch: &mut F,
        promise: &Promise,
    ) -> Result<Option<Finding>, Trouble> {
        let (index, size) = (promise.index, self.size());
        let middle = index / TILE_WIDTH;
        for number in [middle, middle.wrapping_sub(1), middle + 1] {
            let Some(tile) = Tile::widest(Level::Data, number, size) else {
                continue;
            };
            let bytes = match fetch::tile(fetch, &tile).await {
                Ok(bytes) => bytes,
                Err(Trouble::Found(_)) => continue,
                Err(unreachable) => return Err(unreachable),
            };
            let Some((place, timestamp)) = entries::find(promise, &tile, &bytes) else {
                continue;
            };
            return Ok(Some(if place != index {
                let detail = format!("promised at index {index}, it is at index {place}");
                Finding::new(checks::INCLUSION_INDEX, detail)
            } else {
                let detail = format!(
                    "entry {index} was promised with timestamp {}, it has {timestamp}",
                    promise.timestamp
                );
                Finding::new(checks::INCLUSION_TIMESTAMP, detail)
            }));
        }
        Ok(None)
    }
}

/// What has become of a promise.
enum Fate {
    /// It is kept.
    Kept,
    /// Something near its index says what is wrong.
    Elsewhere(Finding),
    /// The entry is not there, or not yet.
    Nowhere,
}

/// A promise that was covered before it was late.
fn in_time(promise: &Promise, verdicts: &dyn Verdicts) {
    if !promise.late {
        verdicts.passed(checks::INCLUSION_IN_TIME);
    }
}
