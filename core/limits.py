"""Every bound of the product, with its reason; relations between them are asserted below."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

#: Largest integer that survives every JSON reader (ENV-4, RFC 8785 section 3.2.2.3).
INTEGER_MAX = 2**53 - 1
#: Deepest JSON accepted anywhere; our own events need 12, provider payloads about 30.
JSON_DEPTH_MAX = 128
#: Payloads up to this length lie in the event row; larger ones are blobs (contract, Envelope).
PAYLOAD_INLINE_BYTES_MAX = 16 * KIB
#: A blob-held payload must still be foldable in bounded memory.
PAYLOAD_BYTES_MAX = 64 * MIB
#: One event names at most this many further blobs; a delivered-input delta is a few dozen.
REFS_MAX = 1024
#: Events in one append request. 500 is the batch the performance goals use.
EVENTS_PER_APPEND_MAX = 1000
#: Body of an API request: EVENTS_PER_APPEND_MAX small events, or a few large ones.
BODY_BYTES_MAX = 1 * MIB
#: Batch bodies of the append route: larger, since 500 events of 1 KB and envelopes are 0.7 MB.
APPEND_BODY_BYTES_MAX = 8 * MIB
#: One uploaded blob.
BLOB_BYTES_MAX = 64 * MIB
#: One uploaded import (streamed to disk, never held).
IMPORT_BYTES_MAX = 512 * MIB
#: One value (a line of a log format, a whole document) an importer will hold in memory. A longer
#: line of a log is left out, with its size and digest in its place; the log goes on.
IMPORT_VALUE_BYTES_MAX = 64 * MIB
#: JSON values of one imported document: decoded, each takes about 90 bytes.
IMPORT_DOCUMENT_VALUES_MAX = 4_000_000
#: Items of one imported document, and events it becomes: they go in by one append, about 8 KB of
#: memory each until it is durable. A long agent run has some hundred.
IMPORT_DOCUMENT_EVENTS_MAX = 50_000
#: A segment of a log format: what is read, decoded and appended at once. Decoded, 4 MiB take some
#: 40 MB; 4,000 lines become about as many events. A longer line is a segment of its own.
LOG_SEGMENT_BYTES_MAX = 4 * MIB
LOG_SEGMENT_LINES_MAX = 4_000
#: Objects that lie in lists of one line, and of the lines of one segment together: each may become
#: an event or two, and those of a segment are held until they are durable, some 8 KB each.
LOG_OBJECTS_MAX = 20_000
#: Files in one import request of the API, and entries read from one folder by the command.
IMPORT_FILES_MAX = 10_000
#: Files dropped on the Import page at once: their reports make one page. A folder of more goes in
#: by the command.
IMPORT_PAGE_FILES_MAX = 500
#: A body that has not arrived by then is answered 408.
BODY_SECONDS_MAX = 20.0
#: Long enough for 512 MiB over a 20 MB/s link, with room.
IMPORT_BODY_SECONDS_MAX = 300.0

#: Group commit: members and bytes in one flush. 256 members of 1 KB flush as fast as 64 (bench).
GROUP_MEMBERS_MAX = 256
GROUP_BYTES_MAX = 4 * MIB
#: Members waiting for the writer; beyond it the answer is 503 with Retry-After (APP-7).
QUEUE_MEMBERS_MAX = 4096
QUEUE_BYTES_MAX = 64 * MIB
#: An acknowledgement that has not come by then is AckUnknown to its caller (APP-6).
ACK_SECONDS_MAX = 30.0
#: One caller's appends per second before 429; generous, it only protects others.
CALLER_REQUESTS_PER_SECOND_MAX = 20_000

#: A projection snapshot is stored every so many events: bounds the suffix a boundary folds.
SNAPSHOT_EVENTS = 64
#: Closed entities of the record are archived into one segment every so many events.
SEGMENT_EVENTS = 64
#: So many segments of one level merge into one of the next.
SEGMENT_FANOUT = 8
#: Highest level: 32,768 events and about 3 MB, so that no merge takes long or much memory.
SEGMENT_LEVEL_MAX = 3
#: A closed entity stays in the record so many events before it may be archived, because what
#: follows a close (a settlement, a second answer) mostly follows at once.
ARCHIVE_LAG_EVENTS = 16
#: Open entities of one kind that a record holds by value after a segment boundary; the oldest
#: beyond it are archived too. A run in step has a few; a source without results has them all.
OPEN_BY_VALUE_MAX = 32
#: Attempts of one operation, and evidence of one attempt, that a record holds by value.
ATTEMPTS_PER_OPERATION_MAX = 32
EVIDENCE_PER_ATTEMPT_MAX = 16
#: Resources with an account; event types counted apart; models named; plan items held.
ACCOUNTS_MAX = 64
EVENT_TYPES_MAX = 128
MODELS_MAX = 16
PLAN_ITEMS_MAX = 256
#: Items of any other list that a record takes over from an event.
RECORD_LIST_MAX = 256
#: Characters of a text, and of a name used as a key, that a record takes over from an event.
RECORD_TEXT_CHARS_MAX = 1000
RECORD_NAME_CHARS_MAX = 200
#: Events of one trajectory: a sequence number stays within 32 bits in every index.
EVENTS_PER_TRAJECTORY_MAX = 2**32 - 1
#: Installed events that may wait beyond a gap of one trajectory: a piece out of order, not a log.
STAGED_EVENTS_MAX = 20_000

#: Acts of people about one trajectory, and of each kind of the desk (views, prices): all of them
#: are read to say what holds.
ACTS_PER_TRAJECTORY_MAX = 5_000
#: Trajectories in the tree of a parent and its sub-agents, and how deep it goes: one page.
TREE_NODES_MAX = 500
TREE_DEPTH_MAX = 32

#: Open streams of pages that follow the log: each holds a connection and a future, nothing more.
STREAMS_MAX = 256
#: Of one caller: a browser's windows, with room; nobody can take the places of all others.
STREAMS_PER_CALLER_MAX = 64
#: A connection that takes none of what waits for it for so long is dropped.
STALL_SECONDS_MAX = 30.0
#: A stream's: what waits for its reader is a few kilobytes, and it goes on where it was.
STREAM_STALL_SECONDS_MAX = 10.0
#: Connections at once, where the system allows the process as many descriptors: beyond them the
#: answer is 503. Twice what may wait for the writer, about 20 KB of memory each.
CONNECTIONS_MAX = 8192

#: Pages.
PAGE_ROWS_MAX = 200
PAGE_ROWS = 50
EVENTS_PAGE_MAX = 1000
#: Values longer than this are cut on a page, with their size and a link to the whole.
DISPLAY_CHARS_MAX = 20_000
#: Logs whose marks a page reads whole, one byte an event, to count and filter by lane; in a longer
#: one it filters by look-ups and does not count.
LOG_MARKS_MAX = 4_000_000
#: Ribbon: at most so many drawn marks in one view, however long the log.
RIBBON_MARKS_MAX = 240

#: Full-text search. One search takes at most so long; a page waits for it.
SEARCH_SECONDS_MAX = 2.0
#: One reading of a list; most take a millisecond.
LIST_SECONDS_MAX = 5.0
#: Characters of a query, and terms in it: both stand in a URL.
QUERY_CHARS_MAX = 1000
QUERY_TERMS_MAX = 24
#: Words and phrases of one search; each is a walk of its own through the index.
SEARCH_PHRASES_MAX = 12
#: Trajectories one search over all of them names; a list beyond it says so.
SEARCH_TRAJECTORIES_MAX = 5_000
#: Matches a list counts before it says `more than`: by the API, and on a page.
LIST_COUNT_MAX = 1_000
PAGE_COUNT_MAX = 10_000
#: One export of a list: rows as lines, and whole logs in one archive.
EXPORT_ROWS_MAX = 1_000_000
EXPORT_LOGS_MAX = 10_000
#: Events of two logs that are compared to say how far they are the same.
COMPARE_EVENTS_MAX = 5_000
#: Counting goes on beyond the first few hundred only so long, by the API and on a page.
LIST_COUNT_SECONDS_MAX = 0.003
PAGE_COUNT_SECONDS_MAX = 0.05
#: Trajectories whose rows one list looks through for a text that very many hold.
LIST_LOOK_MAX = 20_000
#: Characters of one event that are indexed; what was left out is counted and said.
INDEX_EVENT_CHARS_MAX = 4 * MIB
#: Events and characters of one transaction of the index: some 50 ms of work, and little memory.
INDEX_BATCH_EVENTS_MAX = 1_000
INDEX_BATCH_CHARS_MAX = 2 * MIB

#: Free space below which the store says 507 before it is full, and the ballast it can release.
BALLAST_BYTES = 256 * KIB

assert PAYLOAD_INLINE_BYTES_MAX < PAYLOAD_BYTES_MAX <= BLOB_BYTES_MAX
# One request always fits one group, else it could never be flushed.
assert EVENTS_PER_APPEND_MAX * KIB <= GROUP_BYTES_MAX
assert GROUP_BYTES_MAX < QUEUE_BYTES_MAX
assert GROUP_MEMBERS_MAX <= QUEUE_MEMBERS_MAX
assert QUEUE_MEMBERS_MAX + STREAMS_MAX < CONNECTIONS_MAX
assert STREAMS_PER_CALLER_MAX < STREAMS_MAX
# A snapshot always lies on a segment boundary, so that it holds only archived references.
assert SNAPSHOT_EVENTS % SEGMENT_EVENTS == 0
assert ARCHIVE_LAG_EVENTS < SEGMENT_EVENTS
# A dispute has at least two adequate results, and the newest result is always kept.
assert EVIDENCE_PER_ATTEMPT_MAX >= 4
assert PAGE_ROWS <= PAGE_ROWS_MAX
assert IMPORT_PAGE_FILES_MAX <= IMPORT_FILES_MAX
