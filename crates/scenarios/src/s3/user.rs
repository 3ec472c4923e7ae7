use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::http::{Body, Client, Response};
use lucarne_load::{Failure, Iteration, Recorder, Tags, VirtualUser};

use super::acknowledged::{ACKNOWLEDGED, ENTITY_TAG, acknowledgement, no_error};
use super::conditional_put;
use super::content::{Header, header, mix};
use super::options::Operation;
use super::schedule::{ActiveUser, Cell, Turn};
use super::shared_state::{SharedState, WRITTEN};
use super::store::{S3Request, Store};

/// One user: a connection to each store, and what it needs to race with itself.
pub(super) struct S3User {
    shared: Arc<SharedState>,
    number: u64,
    /// Operations so far.
    sequence: u64,
    /// One for each store.
    clients: Vec<Client>,
    /// For each store, made when first needed.
    racers: Vec<Vec<Client>>,
    /// One for each cell.
    tags: Vec<Tags>,
    /// Of requests that belong to no cell.
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
            // Until this user's turn comes. Nothing is recorded: the next iteration begins, and
            // counts, later.
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
        record(iteration, tags, &response);
    }

    /// GET or HEAD of an object that was there before the run.
    async fn read(&mut self, cell: &Cell, tags: Tags, iteration: &mut Iteration) {
        let shared = self.shared.clone();
        let chance = mix(mix(self.number) ^ self.sequence);
        let (key, header) = shared.object("get", cell, chance % shared.objects);
        let request = match cell.operation {
            Operation::Head => S3Request::Head(&key),
            _ => S3Request::Get(&key),
        };
        let pending = iteration.pending(tags, self.clients[cell.store].protocol());
        let mut response = pending
            .until(self.send(cell.store, request, Body::Empty))
            .await;
        if response.exchange.outcome.is_ok() {
            let outcome = verify(&shared, cell, &response, &header);
            let tag = shared.acknowledged[cell.store].compare(&key, &response);
            let counted = [(WRITTEN, &outcome), (ENTITY_TAG, &tag)];
            let counted = counted
                .into_iter()
                .filter(|(check, _)| !iteration.excuses(check));
            match counted
                .map(|(_, outcome)| outcome.as_ref())
                .find(|it| it.is_err())
            {
                None | Some(Ok(_)) => {
                    iteration.count(tags, OBJECT_BYTES, response.body.len() as u64)
                }
                Some(Err(how)) => {
                    let detail = format!("{key} is not what was written: {how}");
                    response.exchange.outcome = Err(Failure::new("content", detail));
                }
            }
            iteration.check(tags, WRITTEN, outcome);
            iteration.check(tags, ENTITY_TAG, tag);
        }
        record(iteration, tags, &response);
    }

    /// Writes an object, aside, and deletes it.
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
        record(iteration, tags, &response);
        if let Some(at_work) = at_work {
            at_work.busy(took(&response));
        }
        if response.exchange.outcome.is_ok() {
            self.confirm_deletion(cell, &key, &response, tags, iteration)
                .await;
        }
    }

    /// Looks whether an object is gone that the store says it has deleted.
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
            404 => no_error(deleted),
            200 => Err("it is still there".to_owned()),
            _ => return, // no verdict
        };
        iteration.check(
            tags,
            DELETED,
            outcome.map_err(|how| format!("{key}: {how}")),
        );
    }

    /// Races with itself for a new object, and looks who has won.
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
            record(iteration, tags, response);
        }
        if let Some(at_work) = at_work {
            // All of a race go on at once: it takes as long as the longest.
            let longest = race.responses.iter().map(took).max();
            at_work.busy(longest.unwrap_or_default());
        }
        if !race.complete {
            return;
        }
        let outcome = match race.winner {
            Err(how) => Err(how),
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
                    return; // no answer is no verdict
                }
                there
            }
        };
        let outcome = outcome.map_err(|how| format!("{}: {key}: {how}", store.name));
        conditional_put::tell(iteration, tags, &shared.counts[cell.store], outcome);
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

/// The entity tag of a PUT that was acknowledged. One that was not is a failed request.
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

/// The name of the check that a deleted object is gone.
const DELETED: &str = "object is deleted";

/// The counter of payload bytes.
const OBJECT_BYTES: &str = "object_bytes";

/// A number that no other object of the run has.
fn unique(user: u64, sequence: u64) -> u64 {
    (user << 40) | sequence
}

fn took(response: &Response) -> std::time::Duration {
    response.exchange.finished - response.exchange.started
}

fn verify(
    shared: &SharedState,
    cell: &Cell,
    response: &Response,
    header: &Header,
) -> Result<(), String> {
    if cell.operation != Operation::Head {
        return shared.content.compare(&response.body, header, cell.size.0);
    }
    match response.headers.get("content-length") {
        Some(length) if length.parse() == Ok(cell.size.0) => Ok(()),
        other => Err(format!("its length is said to be {other:?}")),
    }
}
