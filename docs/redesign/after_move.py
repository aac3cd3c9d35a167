"""Manual steps after the mechanical move; run from the project's root."""
import re, pathlib
R=lambda p: pathlib.Path(p).read_text()
def W(p,t): pathlib.Path(p).write_text(t)
def sub(p,a,b,count=1):
    t=R(p); assert a in t,(p,a); W(p,t.replace(a,b) if count==0 else t.replace(a,b,count))

# decimals belongs to numbers
t=R('src/sfumato/release/plain_words.py')
m=re.search(r'def decimals\(text: str\).*?\n\n\n',t,re.S); fn=m.group(0); t=t.replace(fn,'')
r=re.search(r'_RATIO = .*\n(?:""".*?"""\n)?',t); ratio=r.group(0); t=t.replace(ratio,'')
W('src/sfumato/release/plain_words.py',t)
n=R('src/sfumato/report/numbers.py')
n=n.replace('from sfumato.text import share\n\n__all__ = ["share", "show"]\n','import re\nfrom fractions import Fraction\n\nfrom sfumato.exact_numbers import plain\nfrom sfumato.text import share\n\n__all__ = ["decimals", "share", "show"]\n\n'+ratio)
n=n.rstrip('\n')+'\n\n\n'+fn.strip()+'\n'
W('src/sfumato/report/numbers.py',n)
sub('src/sfumato/anonymize/page.py','from sfumato.release.plain_words import decimals, glossary','from sfumato.release.plain_words import glossary\nfrom sfumato.report.numbers import decimals')
sub('src/sfumato/release/page.py','from sfumato.release.plain_words import decimals, glossary, limits, promises','from sfumato.release.plain_words import glossary, limits, promises\nfrom sfumato.report.numbers import decimals')

# terminal: what knows attacks, answers and inspections leaves
t=R('src/sfumato/report/terminal.py')
def cut(t,start,end):
    a=t.index(start); b=t.index(end,a) if end else len(t)
    return t[:a]+t[b:], t[a:b]
t,answer=cut(t,'def answer_table(','_MOST_BARS, _MOST_NAMES')
t,consts=cut(t,'_MOST_BARS, _MOST_NAMES','def attack_table(')
t,attack=cut(t,'def attack_table(','def print_inspection(')
t,inspect=cut(t,'def print_inspection(','def tell_owner(')
t=t.replace('from sfumato.attack.finding import percent\n','').replace('from sfumato.release.plain_words import decimals\n','').replace('from sfumato.report.numbers import show\n','from sfumato.report.numbers import decimals, show\n')
t=t.replace('    from sfumato.attack.finding import Findings\n','').replace('    from sfumato.data.inspection import Inspection\n','').replace('    from sfumato.data.inspection.uniqueness import SetRisk\n','').replace('    from sfumato.methods.query.page import ShownAnswer\n','')
t=t.replace('    from rich.console import RenderableType\n\n','').replace('from rich.console import Console, Group\n','from rich.console import Console\n').replace('from typing import TYPE_CHECKING, Any, Literal\n','from typing import TYPE_CHECKING, Any\n')
t=t.replace('"""Charts, values and an inspection for the terminal."""','"""Charts and values for the terminal."""')
W('src/sfumato/report/terminal.py',t)
W('src/sfumato/data/inspection/terminal.py','''"""An inspection on the terminal: roles, the most telling columns, three attackers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from sfumato.report.terminal import bars, printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from sfumato.data.inspection import Inspection
    from sfumato.data.inspection.uniqueness import SetRisk

'''+consts.strip()+'\n\n\n'+inspect.strip()+'\n')
W('src/sfumato/cli/tables.py','''"""Tables that several commands print: answers with their error bars, attack results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.table import Table

from sfumato.attack.finding import percent
from sfumato.report.terminal import printable

if TYPE_CHECKING:
    from sfumato.attack.finding import Findings
    from sfumato.methods.query.page import ShownAnswer


'''+answer.strip()+'\n\n\n'+attack.strip()+'\n')
t=R('src/sfumato/cli/families.py'); t=t.replace('report.terminal import answer_table, attack_table, printable, told','report.terminal import printable, told'); assert 'answer_table' in t
W('src/sfumato/cli/families.py',t)
for p,name in (('src/sfumato/cli/anonymize.py','attack_table'),):
    t=R(p); t=t.replace('report.terminal import attack_table, printable','report.terminal import printable'); W(p,t)
sub('src/sfumato/cli/inspect.py','from sfumato.report.terminal import print_inspection','from sfumato.data.inspection.terminal import print_inspection')
sub('tests/unit/methods/query/test_page.py','from sfumato.report.terminal import answer_table','from sfumato.cli.tables import answer_table')

# notebook: drawing a release is the release's
t=R('src/sfumato/report/notebook.py')
t,plot=cut(t,'def plot(release: Release)','def _words(')
t=t.replace('from sfumato.errors import ParameterError\n','').replace('from sfumato.report.charts import bar\n','').replace('from sfumato.release.plots import pictures_of\n','').replace('    from sfumato.release.release import Release\n','').replace('from sfumato.report.display import Pictures\n','')
t=t.replace('"""Cards and pictures of objects for notebooks, light or dark as these are.','"""Cards of objects for notebooks, light or dark as these are.')
W('src/sfumato/report/notebook.py',t)
sub('src/sfumato/release/release.py','from sfumato.report.notebook import plot','from sfumato.release.plots import plot')
t=R('src/sfumato/release/plots.py')
t=t.replace('from sfumato.methods.publish.page import','from sfumato.errors import ParameterError\nfrom sfumato.methods.publish.page import',1).replace('from sfumato.report.figures import','from sfumato.report.display import Pictures\nfrom sfumato.report.figures import',1)
t=t.replace('def pictures_of(release: Release)',plot.strip()+'\n\n\ndef pictures_of(release: Release)',1)
W('src/sfumato/release/plots.py',t)

# registries that name modules by their leaf
sub('src/sfumato/methods/local/catalogue.py','"k-ary": ("k_ary", "KAry")','"k-ary": ("k_ary_response", "KAry")')
sub('src/sfumato/methods/local/catalogue.py','ORACLES.get(name, ("auto", "choose"))','ORACLES.get(name, ("oracle_choice", "choose"))')
sub('src/sfumato/methods/publish/catalogue.py','threshold", "above"),','threshold", "sparse_vector"),')
for p,names in (('src/sfumato/cli/families.py','answer_table, attack_table'),('src/sfumato/cli/anonymize.py','attack_table')):
    t=R(p)
    m=re.search(r'^( *)from sfumato\.report\.terminal import printable[^\n]*\n',t,re.M)
    t=t[:m.start()]+f'{m.group(1)}from sfumato.cli.tables import {names}\n'+t[m.start():]
    W(p,t)

# ---- the front page
import sys
sys.path.insert(0,str(pathlib.Path(__file__).parent))
from mapping import new_name
p='src/sfumato/__init__.py'; t=R(p)
a,b=t.index('_HOMES = {'),t.index('# Only here may')
blk=re.sub(r'": "([a-z._]+)"',lambda m:f'": "{new_name(m.group(1))}"',t[a:b])
blk=blk.replace('    "Relation": "data.schema.unit",\n','').replace('    "open": "vault.vault",','    "local": "methods.local",\n    "noise": "privacy.noise",\n    "open": "vault.vault",')
t=t[:a]+blk+t[b:]
t=t.replace('''# Only here may these have such short names; `Relation` is the old name of `Neighbours`.
_RENAMED = {"open": "open_vault", "init": "create_vault", "Relation": "Neighbours"}''','''_MODULES = {"local", "noise"}
# Only here may these have such short names.
_RENAMED = {"open": "open_vault", "init": "create_vault"}''')
t=t.replace('''    if name in {"local", "noise"}:
        return import_module(f"sfumato.{name}")
    if name in _HOMES:
        home = import_module(f"sfumato.{_HOMES[name]}")
        return getattr(home, _RENAMED.get(name, name))
''','''    if name in _HOMES:
        home = import_module(f"sfumato.{_HOMES[name]}")
        return home if name in _MODULES else getattr(home, _RENAMED.get(name, name))
''')
W(p,t)
sub('tests/unit/release/test_plain_words.py','from sfumato.release.plain_words import decimals, glossary, limits, promises','from sfumato.release.plain_words import glossary, limits, promises\nfrom sfumato.report.numbers import decimals')

# ---- lines that grew too long
sub('src/sfumato/anonymize/criteria/closeness.py','f"t must be between 0 and 1, but {arguments.shown(self.t)} was given: {percent} % is "\n                f"written','f"t must be between 0 and 1, but {arguments.shown(self.t)} was given: "\n                f"{percent} % is written')
sub('src/sfumato/data/schema/column.py','{arguments.shown(self.length)}; allowed "\n                f"is a','{arguments.shown(self.length)}; "\n                f"allowed is a')
sub('src/sfumato/methods/local/shuffle_amplification.py','line = f"epsilon {self.epsilon:.4g} at delta {exact_numbers.plain(self.delta)} for {self.people}"\n        return Card(f"{line} people", facts)','delta = exact_numbers.plain(self.delta)\n        line = f"epsilon {self.epsilon:.4g} at delta {delta} for {self.people} people"\n        return Card(line, facts)')
sub('src/sfumato/methods/programs/source.py','f"A program must be a Python function written with def, not {arguments.shown(program)}.",','"A program must be a Python function written with def, not "\n            f"{arguments.shown(program)}.",')
sub('src/sfumato/methods/publish/options.py','f"{name} must be a whole number from {least:,} to {most:,}, not {arguments.shown(value)}.",','f"{name} must be a whole number from {least:,} to {most:,}, not "\n            f"{arguments.shown(value)}.",')
sub('src/sfumato/methods/query/plan/allocation.py','{exact_numbers.plain(least, digits=2)} of the price, "\n            f"which is less than {exact_numbers.plain(_LEAST_SHARE)} of it or than a budget counts. Give "\n            "weights','{exact_numbers.plain(least, digits=2)} of the "\n            f"price, which is less than {exact_numbers.plain(_LEAST_SHARE)} of it or than a budget "\n            "counts. Give weights')
sub('src/sfumato/vault/add_dataset.py','was given. Save the table as Parquet and add the path, or put "\n            "it under','was given. Save the table as Parquet and add the path, or "\n            "put it under')
sub('src/sfumato/vault/config.py','is being changed by {filesystem.lock_holder(handle)} for more "\n                f"than {','is being changed by {filesystem.lock_holder(handle)} for "\n                f"more than {')
sub('src/sfumato/vault/config.py','seconds. Nothing was changed. Wait until it "\n                "ends,','seconds. Nothing was changed. Wait "\n                "until it ends,')
sub('src/sfumato/vault/jobs/job_json.py','not as {arguments.shown(value)}: the "\n                "server','not as {arguments.shown(value)}: "\n                "the server')
sub('src/sfumato/vault/synth_family.py','chooses itself what it measures. Leave "\n            "out','chooses itself what it measures. "\n            "Leave out')
sub('tests/end/test_operator.py','"import os, signal, sys; from pathlib import Path; from sfumato.privacy.ledger.base import Ledger\\n"','"import os, signal, sys; from pathlib import Path\\n"\n        "from sfumato.privacy.ledger.base import Ledger\\n"')

# ---- meta tests
import shutil, os
for gone in ('tests/meta/test_layers.py','docs/guide/packages.py','docs/guide/packages.svg'):
    os.remove(gone)
FILES = pathlib.Path(__file__).parent / 'files'
for f in FILES.rglob('*'):
    if f.is_file(): shutil.copy(f, pathlib.Path('.')/f.relative_to(FILES))
p='tests/meta/test_shape.py'; t=R(p)
t=re.sub(r'alone = \{"texts.py", "[a-z/]*checker.py"\}','alone = {"text.py", "privacy/ledger/checker.py"}',t)
W(p,t)
p='tests/meta/test_docstrings.py'; t=R(p)
t=t.replace('    "mechanisms": ("sample"','    "privacy/mechanisms": ("sample"').replace('HEADINGS["mechanisms"]','HEADINGS["privacy/mechanisms"]').replace('missing("mechanisms"','missing("privacy/mechanisms"').replace('missing("publish"','missing("methods/publish"').replace('missing("local"','missing("methods/local"').replace('"forms.py:FormPublication"','"form_kinds.py:FormPublication"')
W(p,t)
p='tests/meta/test_flags.py'; t=R(p)
t=t.replace('"sandbox/bubblewrap.py"','"methods/programs/sandbox/bubblewrap.py"').replace('"inspection": {','"data/inspection": {').replace('"publish": {','"methods/publish": {').replace('"query": {','"methods/query": {').replace('"anonymize/distributions.py"','"anonymize/distributions.py"')
W(p,t)
sub('tests/meta/test_units.py','"privacy.units" in','"schema.unit" in')
sub('tests/meta/test_architecture.py','    drawing = runpy.run_path(str(GUIDE.with_name("packages.py")))\n    assert GUIDE.with_name("packages.svg").read_text() == drawing["picture"](), "make reference"','    drawing = runpy.run_path(str(GUIDE.with_name("floors.py")))\n    assert GUIDE.with_name("floors.svg").read_text() == drawing["picture"](), "make reference"')
sub('tests/meta/test_architecture.py','test_the_picture_shows_the_imports','test_the_picture_shows_the_floors')
sub('Makefile','docs/guide/packages.py','docs/guide/floors.py')
p='docs/guide/architecture.md'; t=R(p)
t=t.replace('![The packages: each stands below what it imports](packages.svg)\n\nThe picture is drawn from the imports by `docs/guide/packages.py`; a test compares them, and another one runs\nthe six walks below and looks whether every file that they name does run.','The package has five floors. A floor imports only floors below it, or its own; imports for type checking count.\n\n![The five floors and the packages on each](floors.svg)\n\n`docs/guide/floors.py` holds the table of floors and draws the picture; `tests/meta/test_floors.py` checks every\nimport against it. Another test runs the six walks below and checks that every file they name does run.')
t=t.replace('and `report/terminal.py` shows it.\n\n## A request','and `cli/tables.py` prints it.\n\n## A request').replace('5. `report/terminal.py` draws it; nothing','5. `data/inspection/terminal.py` prints it; nothing')
W(p,t)

p='tests/end/test_refusals_closed.py'; t=R(p)
for a,b in (('"inspection/"','"data/inspection/"'),('"comparison/"','"attack/comparison/"'),('"local/"','"methods/local/"'),('"schema/"','"data/schema/"'),('"sandbox/"','"methods/programs/sandbox/"'),('"engines/"','"data/engines/"'),('"query/"','"methods/query/"'),('"graph/"','"methods/graph/"'),('"stream/"','"methods/stream/"'),('"publish/"','"methods/publish/"'),('"synth/"','"methods/synth/"'),('"programs/"','"methods/programs/"'),('"sets/"','"methods/itemsets/"'),('"counting/"','"data/counting/"'),('"mechanisms/"','"privacy/mechanisms/"'),('"noise/"','"privacy/noise/"')):
    if a in t: t=t.replace(a,b)
t=t.replace('    "steward/": "what an owner does with a table without a budget touches no vault",\n','    "release/": "what an owner does with a table without a budget touches no vault",\n    "data/files/": "data is read after the charge; of what is read before, workloads, some are above",\n')
t=t.replace('    "gate/": "what a server refuses','    **dict.fromkeys(("server/", "client/", "console/"), "what a server refuses').replace('when one cannot begin: tests/end/gate",','when one cannot begin: tests/end/gate"),') if '"gate/": "what a server' in t else t
t=re.sub(r'("[a-z_/.]+"): ("[^"\n]{20,}"),\n',lambda m: m.group(0) if len(m.group(0))<96 else m.group(1)+': (\n        '+m.group(2)+'\n    ),\n',t)
W(p,t)

sub('tests/end/test_refusals.py','ROOT / "tests" / "unit" / "query"','ROOT / "tests" / "unit" / "methods" / "query"')
sub('tests/end/test_vault_commands.py','"sfumato" / "ledger" / "checker.py"','"sfumato" / "privacy" / "ledger" / "checker.py"')
sub('tests/unit/privacy/noise/test_entropy.py','Path(noise.__file__).parents[1]','Path(noise.__file__).parents[2]')
sub('tests/end/test_refusals_closed.py','    "methods/learn/model.py":','    "methods/learn/prediction.py": "predict touches no vault",\n    "methods/trajectory/locate.py": "locate touches no vault",\n    "operations/schema_draft.py": "schemas are declared before a vault is asked",\n    "methods/learn/model.py":')
