use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::http::{Body, Client, Response, kind};
use lucarne_load::{Failure, Iteration, Recorder, Tags, VirtualUser};

use super::acknowledged::{ACKNOWLEDGED, ENTITY_TAG, acknowledgement, no_error};
use super::conditional_put;
use super::content::{ContentError, header, mix};
use super::options::Operation;
use super::schedule::{ActiveUser, Cell, Turn};
use super::shared_state::{SharedState, WRITTEN};
use super::store::{S3Request, Store};

/// A user: a connection to each store, and its clients for races.
pub(super) struct S3User {
    shared: Arc<SharedState>,
    number: u64,
    /// Number of operations so far.
    sequence: u64,
    /// Client for each store.
    clients: Vec<Client>,
    /// Racing clients of each store, created when first needed.
    racers: Vec<Vec<Client>>,
    /// Tags of each cell.
    tags: Vec<Tags>,
    /// Tags of requests outside cells.
    aside: Tags,
}

#[async_trait]
impl VirtualUser for S3User {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let shared = self.shared.clone();
        let Some(schedule) = &shared.schedule else {
            let cells = shared.cells.len() as u64;
            self.work((iteration.number() % cells) as usize, iteration, None)
                .await;
            return;
        };
        match schedule.turn() {
            Turn::Work(cell, at_work) => self.work(cell, iteration, Some(at_work)).await,
            // Waits for this user's turn. Nothing is recorded: the next iteration begins and counts
            // later.
            Turn::Wait(time) => {
                iteration.idle();
                iteration.pause(time).await;
            }
        }
    }
}

impl S3User {
    pub(super) fn new(shared: Arc<SharedState>, number: u64, recorder: &Recorder) -> Self {
        let clients = shared.stores.iter().filter_map(Store::client).collect();
        let tags = shared.cells.iter().map(|cell| shared.tags(cell, recorder));
        Self {
            number,
            sequence: 0,
            clients,
            racers: shared.stores.iter().map(|_| Vec::new()).collect(),
            tags: tags.collect(),
            aside: recorder.tags(&[("op", "setup")]),
            shared,
        }
    }

    async fn work(
        &mut self,
        index: usize,
        iteration: &mut Iteration,
        at_work: Option<ActiveUser<'_>>,
    ) {
        let cell = self.shared.cells[index];
        let tags = self.tags[index];
        self.sequence += 1;
        match cell.operation {
            Operation::Put => self.put(&cell, tags, iteration).await,
            Operation::Get | Operation::Head => self.read(&cell, tags, iteration).await,
            Operation::Delete => self.delete(&cell, tags, iteration, at_work).await,
            Operation::Create => self.create(&cell, tags, iteration, at_work).await,
        }
    }

    async fn put(&mut self, cell: &Cell, tags: Tags, iteration: &mut Iteration) {
        let shared = self.shared.clone();
        let number = shared.next_put(cell.store);
        let (key, header) = shared.object("put", cell, number);
        let parts = shared.content.parts(&header, cell.size.0);
        let pending = iteration.pending(tags, self.clients[cell.store].protocol());
        let mut response = pending
            .until(self.send(cell.store, S3Request::Put(&key), Body::Parts(&parts)))
            .await;
        if let Some(tag) = acknowledged(iteration, tags, &key, &mut response) {
            shared.acknowledged[cell.store].remember(&key, tag);
            iteration.count(tags, OBJECT_BYTES, cell.size.0);
        }
        record_cell(iteration, tags, cell, &response);
    }

    /// Sends GET or HEAD of an object that was written before the run.
    async fn read(&mut self, cell: &Cell, tags: Tags, iteration: &mut Iteration) {
        let shared = self.shared.clone();
        let chance = mix(mix(self.number) ^ self.sequence);
        let (key, header) = shared.object("get", cell, chance % shared.objects);
        let pending = iteration.pending(tags, self.clients[cell.store].protocol());
        let mut comparison = shared.content.comparison(&header, cell.size.0);
        let (store, client) = (&shared.stores[cell.store], &mut self.clients[cell.store]);
        let mut response = pending
            .until(async {
                match cell.operation {
                    Operation::Head => {
                        let head = S3Request::Head(&key);
                        store.send(client, head, Body::Empty).await
                    }
                    _ => store.get(client, &key, &mut comparison).await,
                }
            })
            .await;
        if response.exchange.outcome.is_ok() {
            let outcome = match cell.operation {
                Operation::Head => announced_length(cell, &response),
                _ => comparison.result(),
            };
            let tag = shared.acknowledged[cell.store].compare(&key, &response);
            let tag = tag.map_err(|error| error.to_string());
            let outcome = outcome.map_err(|error| error.to_string());
            let counted = [(WRITTEN, &outcome), (ENTITY_TAG, &tag)];
            let counted = counted
                .into_iter()
                .filter(|(check, _)| !iteration.excuses(check));
            match counted
                .map(|(_, outcome)| outcome.as_ref())
                .find(|it| it.is_err())
            {
                None | Some(Ok(_)) => {
                    iteration.count(tags, OBJECT_BYTES, response.exchange.body_in)
                }
                Some(Err(how)) => {
                    let detail = format!("{key} differs from the written object: {how}");
                    response.exchange.outcome = Err(Failure::new("content", detail));
                }
            }
            iteration.check(tags, WRITTEN, outcome);
            iteration.check(tags, ENTITY_TAG, tag);
        }
        record_cell(iteration, tags, cell, &response);
    }

    /// Writes an object outside the measurement, and deletes it.
    async fn delete(
        &mut self,
        cell: &Cell,
        tags: Tags,
        iteration: &mut Iteration,
        at_work: Option<ActiveUser<'_>>,
    ) {
        let shared = self.shared.clone();
        let (key, header) = shared.object("delete", cell, self.unique());
        let parts = shared.content.parts(&header, cell.size.0);
        let protocol = self.clients[cell.store].protocol();
        let pending = iteration.pending(self.aside, protocol);
        let mut put = pending
            .until(self.send(cell.store, S3Request::Put(&key), Body::Parts(&parts)))
            .await;
        let written = acknowledged(iteration, self.aside, &key, &mut put);
        record(iteration, self.aside, &put);
        if written.is_none() {
            return;
        }
        let pending = iteration.pending(tags, protocol);
        let response = pending
            .until(self.send(cell.store, S3Request::Delete(&key), Body::Empty))
            .await;
        record_cell(iteration, tags, cell, &response);
        if let Some(at_work) = at_work {
            at_work.busy(took(&response));
        }
        if response.exchange.outcome.is_ok() {
            self.confirm_deletion(cell, &key, &response, tags, iteration)
                .await;
        }
    }

    /// Checks that a deleted object no longer exists.
    async fn confirm_deletion(
        &mut self,
        cell: &Cell,
        key: &str,
        deleted: &Response,
        tags: Tags,
        iteration: &mut Iteration,
    ) {
        let pending = iteration.pending(self.aside, self.clients[cell.store].protocol());
        let response = pending
            .until(self.send(cell.store, S3Request::Gone(key), Body::Empty))
            .await;
        record(iteration, self.aside, &response);
        let outcome = match response.status {
            404 => no_error(deleted).map_err(|error| format!("{key}: {error}")),
            200 => Err(format!("{key}: the object still exists")),
            _ => return, // no verdict
        };
        iteration.check(tags, DELETED, outcome);
    }

    /// Creates an object with several clients concurrently, and checks the winner.
    async fn create(
        &mut self,
        cell: &Cell,
        tags: Tags,
        iteration: &mut Iteration,
        at_work: Option<ActiveUser<'_>>,
    ) {
        let shared = self.shared.clone();
        let store = &shared.stores[cell.store];
        let racers = &mut self.racers[cell.store];
        while racers.len() < shared.racers as usize {
            let Some(client) = store.client() else { return };
            racers.push(client);
        }
        let number = unique(self.number, self.sequence);
        let (key, _) = shared.object("create", cell, number);
        let headers: Vec<_> = (1..=u64::from(shared.racers))
            .map(|writer| header(shared.seed, "create", number, writer))
            .collect();
        let (content, size) = (&shared.content, cell.size.0);
        let pending = |client: &Client| iteration.pending(tags, client.protocol());
        let race =
            conditional_put::run(store, racers, &key, content, &headers, size, &pending).await;
        for response in &race.responses {
            record_cell(iteration, tags, cell, response);
        }
        if let Some(at_work) = at_work {
            // The clients of a race run concurrently, so the race takes as long as the slowest
            // client.
            let longest = race.responses.iter().map(took).max();
            at_work.busy(longest.unwrap_or_default());
        }
        if !race.complete {
            return;
        }
        let outcome = match race.winner {
            Err(error) => Err(error),
            Ok(winner) => {
                iteration.count(tags, OBJECT_BYTES, size);
                let client = &mut self.clients[cell.store];
                let header = &headers[winner];
                let pending = iteration.pending(self.aside, client.protocol());
                let (response, there) = pending
                    .until(conditional_put::confirm(
                        store, client, &key, content, header, size,
                    ))
                    .await;
                record(iteration, self.aside, &response);
                if response.status == 0 {
                    return; // without a response there is no verdict
                }
                there
            }
        };
        let counts = &shared.counts[cell.store];
        conditional_put::tell(iteration, tags, counts, &store.name, &key, outcome);
    }

    async fn send(&mut self, store: usize, request: S3Request<'_>, body: Body<'_>) -> Response {
        self.shared.stores[store]
            .send(&mut self.clients[store], request, body)
            .await
    }

    fn unique(&self) -> u64 {
        unique(self.number, self.sequence)
    }
}

fn record(iteration: &mut Iteration, tags: Tags, response: &Response) {
    iteration.request(tags, &response.exchange);
}

/// Records a request of a cell. If the check of its operation may fail (`--allow`), an unexpected
/// status is not a failure either: a store that rejects an operation fails no check of it.
fn record_cell(iteration: &mut Iteration, tags: Tags, cell: &Cell, response: &Response) {
    let mut exchange = response.exchange.clone();
    let failure = exchange.outcome.as_ref().err();
    if failure.is_some_and(|failure| failure.kind == kind::STATUS)
        && iteration.excuses(check_of(cell.operation))
    {
        exchange.outcome = Ok(());
    }
    iteration.request(tags, &exchange);
}

/// Returns the check of the result of an operation.
fn check_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Put => ACKNOWLEDGED,
        Operation::Get | Operation::Head => WRITTEN,
        Operation::Create => conditional_put::CHECK,
        Operation::Delete => DELETED,
    }
}

/// Returns the entity tag of an acknowledged PUT. Without acknowledgement the request fails.
fn acknowledged(
    iteration: &Iteration,
    tags: Tags,
    key: &str,
    response: &mut Response,
) -> Option<String> {
    response.exchange.outcome.as_ref().ok()?;
    let tag = acknowledgement(response).map_err(|how| format!("PUT of {key}: {how}"));
    if let Err(how) = &tag
        && !iteration.excuses(ACKNOWLEDGED)
    {
        response.exchange.outcome = Err(Failure::new("content", how.clone()));
    }
    let outcome = tag.as_ref().map(|_| ()).map_err(Clone::clone);
    iteration.check(tags, ACKNOWLEDGED, outcome);
    tag.ok()
}

/// Name of the check that a deleted object no longer exists.
pub(super) const DELETED: &str = "object is deleted";

/// Counter of payload bytes.
const OBJECT_BYTES: &str = "object_bytes";

/// Returns a number that is unique among the objects of the run.
fn unique(user: u64, sequence: u64) -> u64 {
    (user << 40) | sequence
}

fn took(response: &Response) -> std::time::Duration {
    response.exchange.finished - response.exchange.started
}

fn announced_length(cell: &Cell, response: &Response) -> Result<(), ContentError> {
    match response.headers.get("content-length") {
        Some(length) if length.parse() == Ok(cell.size.0) => Ok(()),
        other => Err(ContentError::ContentLength {
            expected: cell.size.0,
            found: other.map(str::to_owned),
        }),
    }
}
