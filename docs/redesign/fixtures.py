"""Our own test fixtures move from the package to tests/fixtures; run from the project's root."""
import pathlib, re, shutil
NAMES='class_learning counts expressions grammar ledgers linked publications questions synthesis trajectory transactions'.split()
out=pathlib.Path('tests/fixtures'); out.mkdir(exist_ok=True)
for n in NAMES: shutil.move(f'src/sfumato/testing/{n}.py', out/f'{n}.py')
for base in ('tests','bench','docs'):
    for p in pathlib.Path(base).rglob('*.py'):
        t=o=p.read_text()
        for n in NAMES: t=re.sub(rf'\bsfumato\.testing\.{n}\b',f'tests.fixtures.{n}',t)
        def split(m):
            names=[x.strip() for x in m.group(2).split(',')]
            mine=[x for x in names if x.split(' as ')[0] in NAMES]; rest=[x for x in names if x not in mine]
            lines=[]
            if rest: lines.append(f'{m.group(1)}from sfumato.testing import {", ".join(rest)}')
            if mine: lines.append(f'{m.group(1)}from tests.fixtures import {", ".join(mine)}')
            return '\n'.join(lines)
        t=re.sub(r'^( *)from sfumato\.testing import ([^\n(]+)$',split,t,flags=re.M)
        if t!=o: p.write_text(t)
